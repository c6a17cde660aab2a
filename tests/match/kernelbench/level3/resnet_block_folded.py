from resnet_block import Model


class ModelNew(Model):
    """Wrong in this mode: takes the running mean and variance, as if it had been put into evaluation."""

    def __init__(self, inner, outer):
        super().__init__(inner, outer)
        self.eval()
