"""Counters beside work: values that something else has sampled while the program ran, such as watts of a device."""
