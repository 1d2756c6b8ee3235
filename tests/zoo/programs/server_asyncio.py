"""A server on asyncio: requests are answered one by one, or in micro-batches."""

import asyncio
import sys

import torch
from torch import nn

ABOUT = {
    "what": "a server on asyncio that answers requests one by one",
    "needs": (),
    "step": "a call of the model",
    "steps": None,
    "slow": "The model runs for each request alone, though sixteen wait at any time.",
    "rules": (),
    "true": "Weights are read for a single row in each call; in batches of 16 they are read once for all. No rule says so of a host.",
}

CLIENTS, REQUESTS = 16, 12


class Server:
    """Answers requests, `size` at a time at most."""

    def __init__(self, model: nn.Module, size: int) -> None:
        self.model, self.size, self.requests = model, size, asyncio.Queue()

    async def ask(self, row: torch.Tensor) -> int:
        answer = asyncio.get_running_loop().create_future()
        await self.requests.put((row, answer))
        return await answer

    async def serve(self) -> None:
        while True:
            batch = [await self.requests.get()]
            while len(batch) < self.size and not self.requests.empty():
                batch.append(self.requests.get_nowait())
            with torch.inference_mode():
                scores = self.model(torch.stack([row for row, _ in batch]))
            for (_, answer), best in zip(batch, scores.argmax(-1).tolist(), strict=False):
                answer.set_result(best)
            await asyncio.sleep(0)


async def client(server: Server, number: int) -> int:
    drawn = torch.Generator().manual_seed(number)
    return sum([await server.ask(torch.randn(512, generator=drawn)) for _ in range(REQUESTS)])


async def run() -> None:
    model = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 2048), nn.ReLU(), nn.Linear(2048, 10))
    server = Server(model.eval(), CLIENTS if "--fixed" in sys.argv else 1)
    serving = asyncio.create_task(server.serve())
    print("result", sum(await asyncio.gather(*(client(server, number) for number in range(CLIENTS)))))
    serving.cancel()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    asyncio.run(run())


if __name__ == "__main__":
    main()
