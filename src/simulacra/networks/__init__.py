"""Public networks: the pretrained ones that measure images, the classifiers of the papers, and where weights live."""
