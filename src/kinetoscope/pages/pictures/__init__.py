"""Pictures that several pages share."""
