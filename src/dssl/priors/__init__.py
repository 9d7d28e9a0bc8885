"""Scores for predictions. In: logits z (hence θ). Out: log q(θ).

May use label spaces and circuits; knows nothing of data or training loops.
"""
