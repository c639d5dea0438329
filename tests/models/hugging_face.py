"""Models of Hugging Face's transformers, small ones, built from their configurations: nothing is downloaded.

`MODELS` has a row for each. Models take inputs by position and give (scores, loss). Nothing is dropped out: torch draws other numbers.
"""

from hugging_face_sequences import SEQUENCES
from hugging_face_text import TEXTS
from hugging_face_vision import VISION

MODELS = {**TEXTS, **SEQUENCES, **VISION}
