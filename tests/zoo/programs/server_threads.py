"""A batch server: clients are threads, one thread collects their requests and runs the model on batches."""

import queue
import threading
from concurrent.futures import Future

import torch
from torch import nn

ABOUT = {
    "what": "a batch server with threads and a queue",
    "needs": (),
    "step": "a call of the model",
    "steps": None,
    "slow": None,
    "rules": (),
    "true": "A thread runs the model on up to 16 requests at once. `profile` records the main thread, which only waits.",
}

CLIENTS, REQUESTS = 16, 30


class Server:
    """Answers requests in batches of what is there."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.requests = model, queue.Queue()
        self.thread = threading.Thread(target=self._serve, name="server")
        self.thread.start()

    def ask(self, row: torch.Tensor) -> int:
        answer = Future()
        self.requests.put((row, answer))
        return answer.result()

    def stop(self) -> None:
        self.requests.put(None)
        self.thread.join()

    def _batch(self):
        first = self.requests.get()
        batch = [first]
        while first is not None and len(batch) < CLIENTS:
            try:
                batch.append(self.requests.get(timeout=0.002))
            except queue.Empty:
                break
            if batch[-1] is None:
                break
        return batch

    @torch.inference_mode()
    def _serve(self) -> None:
        running = True
        while running:
            batch = self._batch()
            running = batch[-1] is not None
            batch = [each for each in batch if each is not None]
            if batch:
                scores = self.model(torch.stack([row for row, _ in batch]))
                for (_, answer), best in zip(batch, scores.argmax(-1).tolist(), strict=False):
                    answer.set_result(best)


def client(server: Server, number: int, answers: list) -> None:
    drawn = torch.Generator().manual_seed(number)
    answers[number] = sum(server.ask(torch.randn(512, generator=drawn)) for _ in range(REQUESTS))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    server, answers = Server(model.eval()), [0] * CLIENTS
    clients = [threading.Thread(target=client, args=(server, number, answers)) for number in range(CLIENTS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    server.stop()
    print("result", sum(answers))


if __name__ == "__main__":
    main()
