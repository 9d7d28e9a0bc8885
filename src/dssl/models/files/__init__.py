"""Models as files. In: a fitted estimator. Out: a folder of safetensors and JSON, or an ONNX file; and back again.

Start at `saved.py`.

    saved      a model as a folder, written whole or not at all, and read without executing anything
    described  parameters and terms as JSON
    card       the page about a model that lies beside its weights
    export     the network and its decoding as ONNX
"""
