"""Only notes its batches, and trains on them when somebody asks for the state or the loss (issue B.5, untimed hooks; KernelGYM "lazy optimization")."""

from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Lazy(Trainer):
    def __init__(self, *args):
        super().__init__(*args)
        self.noted = []

    def step(self, placed):
        self.noted.append(tuple(tensor.clone() for tensor in placed))
        return {"loss": len(self.noted)}

    def catch_up(self):
        losses = [super(Lazy, self).step(placed)["loss"] for placed in self.noted]
        self.noted.clear()
        return losses

    def load(self, state):
        self.noted.clear()
        super().load(state)

    def state(self):
        self.catch_up()
        return super().state()

    def outputs(self, raw):
        if self.noted:
            self.loss = self.catch_up()[-1]
        return {"loss": self.loss}


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return Trainer(inputs, device).program()
    trainer = Lazy(inputs, device)
    return trainer.program(outputs=trainer.outputs)
