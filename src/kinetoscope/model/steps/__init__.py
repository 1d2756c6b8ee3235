"""Steps of the job, the selection of a part of it, and the data loader."""
