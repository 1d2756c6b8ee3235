"""What operators must compute and move, what the device could do in that time, and the distance between the two."""
