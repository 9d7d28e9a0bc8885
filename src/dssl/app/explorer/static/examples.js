// Rules to begin with.

function sudoku() {
  const cell = (row, column) => `${"abcd"[row]}${column + 1}`;
  const four = [0, 1, 2, 3];
  const lines = four.map((r) => four.map((c) => `${cell(r, c)}: 1..4`).join("\n"));
  const groups = four.flatMap((i) => [
    four.map((j) => cell(i, j)),
    four.map((j) => cell(j, i)),
    four.map((j) => cell(2 * (i >> 1) + (j >> 1), 2 * (i % 2) + (j % 2))),
  ]);
  const pairs = new Set();
  for (const group of groups) {
    group.forEach((a, i) => group.slice(i + 1).forEach((b) => pairs.add(`${a} != ${b}`)));
  }
  return `# a cell for each row (a–d) and column (1–4)\n${lines.join("\n")}\n\n${[...pairs].join("\n")}\n`;
}

export const EXAMPLES = {
  "animals: legs exclude fins": `# the paper's example
legs, fins, wings
legs -> !fins
`,
  "species and attributes": `species: {cat, dog, trout, eagle}
legs, fins, wings, gills

species in {cat, dog} -> legs & !wings
species = trout -> fins & gills
species = eagle -> wings & legs
legs -> !fins
gills -> fins
0.9 :: wings -> !gills      # a soft rule, odds 9:1
`,
  "exactly one": `red, green, blue, yellow
exactly_one(red, green, blue, yellow)
`,
  "hierarchy": `animal, mammal, bird, cat, dog, eagle
mammal -> animal
bird -> animal
cat -> mammal
dog -> mammal
eagle -> bird
at_most(1, mammal, bird)
at_most(1, cat, dog)
`,
  "sudoku 4×4": sudoku(),
  "sums of digits": `a: 0..4
b: 0..4
total: 0..8
a + b = total
`,
  "rules that clash": `legs, fins, wings
legs -> fins
wings -> legs
legs -> !fins
wings = true
fins -> !wings | legs
`,
};
