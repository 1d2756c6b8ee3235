"""Programs that are recorded on the device: they import torch and the recorder, and nothing else of ours."""
