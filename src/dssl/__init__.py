"""dssl: few labels, much unlabelled data, and a page of rules about what labels can look like."""
