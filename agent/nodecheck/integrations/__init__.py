"""Files of other systems that nodecheck plugs into: what `nodecheck init` prints. Data alone."""
