"""What several verbs share: options, opening a job, output."""
