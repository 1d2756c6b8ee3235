"""The work that operators must do, what the device could do in that time, and the distance between the two."""
