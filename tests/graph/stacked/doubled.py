def sum_up(x):
    return (x + x).sum(1) / 2
