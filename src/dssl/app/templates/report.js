"use strict";
// A click on a column's name sorts the table by it, numbers by their data-v.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = table.tHead.rows[0].cells;
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = row => row.cells[head.cellIndex].dataset.v ?? row.cells[head.cellIndex].textContent.trim();
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => value(a).localeCompare(value(b), undefined, { numeric: false }));
      if (head.classList.contains("n")) rows.sort((a, b) => value(a) - value(b));
      body.append(...(up ? rows : rows.reverse()));
    });
  }
}
