# mypy: ignore-errors
"""PPO in miniature: a rollout in an environment without gradients, then several updates on what it brought."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "RL loop: rollout, then updates",
    "needs": (),
    "step": "an update; every fourth comes after a rollout of 32 moves",
    "steps": 32,
    "slow": "the rollout keeps an autograd graph that no backward pass uses",
    "rules": ("HOST012",),
    "true": "The rollout builds a graph for nothing, which costs too little to be measured here.",
}


class Cart:
    """Many poles at once, by their equations of motion."""

    def __init__(self, count):
        self.state = torch.zeros(count, 4).uniform_(-0.05, 0.05)

    def move(self, action):
        x, speed, angle, turn = self.state.unbind(1)
        force = action * 20.0 - 10.0
        sine, cosine = angle.sin(), angle.cos()
        push = (force + 0.05 * turn.square() * sine) / 1.1
        twist = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
        pull = push - 0.05 * twist * cosine / 1.1
        self.state = torch.stack([x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * twist], 1)
        fell = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.21)
        self.state[fell] = 0.01
        return self.state, (~fell).float(), fell


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    policy, value = nn.Linear(64, 2), nn.Linear(64, 1)
    parameters = [*body.parameters(), *policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4, fused=True)
    world = Cart(64)
    for _ in range(ABOUT["steps"] // 4):
        seen, moves, odds, rewards, values = [], [], [], [], []
        state = world.state
        with torch.set_grad_enabled("--fixed" not in sys.argv):
            for _ in range(32):
                hidden = body(state)
                choice = torch.distributions.Categorical(logits=policy(hidden))
                move = choice.sample()
                seen.append(state), moves.append(move), odds.append(choice.log_prob(move).detach())
                values.append(value(hidden).squeeze(1).detach())
                state, reward, _ = world.move(move)
                rewards.append(reward)
        returns, total = [], torch.zeros(64)
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.append(total)
        returns = torch.stack(returns[::-1]).flatten()
        states, actions, old = torch.cat(seen), torch.cat(moves), torch.cat(odds)
        gain = returns - torch.cat(values)
        for _ in range(4):
            hidden = body(states)
            choice = torch.distributions.Categorical(logits=policy(hidden))
            ratio = (choice.log_prob(actions) - old).exp()
            bound = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (value(hidden).squeeze(1) - returns).square().mean() - bound - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    print("digest", sum(p.double().sum().item() for p in parameters))


if __name__ == "__main__":
    main()
