"""Tables and bars that several pages share."""
