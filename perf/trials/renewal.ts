/**
 * How long a renewal of leases may be delayed while a large ruleset is applied in the same process:
 * by the event loop (a timer that is late), in the main thread and in a worker, and by the kernel,
 * where each transaction waits for the one before (a small batch on a socket of its own, in the
 * worker). All in milliseconds, the longest.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { type BatchOperation, Netlink } from 'nftables-napi';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { stages } from './stages.ts';
import { answer, trialInput } from './trial.ts';

const EVERY = 10;

/** Returns a function that ends it and returns the longest delay of a timer. */
function watchLoop(): () => number {
  let late = 0;
  let expected = performance.now() + EVERY;
  const timer = setInterval(() => {
    const now = performance.now();
    late = Math.max(late, now - expected);
    expected = now + EVERY;
  }, EVERY);
  return () => {
    clearInterval(timer);
    return late;
  };
}

async function renew(): Promise<void> {
  const own = new Netlink();
  const name = { family: 'inet', table: 'renewal' } as const;
  const element = { ...name, set: 'live', keys: new Uint8Array([192, 0, 2, 1]), keyLength: 4 } as const;
  const once = (operations: BatchOperation[]) => own.batch(operations);
  await once([
    { op: 'addTable', ...name },
    { op: 'addSet', ...name, set: 'live', id: 1, key: { type: 7, length: 4 } },
    { op: 'add', ...element },
  ]);
  let isRunning = true;
  let batch = 0;
  parentPort?.once('message', () => {
    isRunning = false;
  });
  const ended = watchLoop();
  parentPort?.postMessage('ready');
  while (isRunning) {
    const started = performance.now();
    await once([
      { op: 'delete', ...element },
      { op: 'add', ...element },
    ]);
    batch = Math.max(batch, performance.now() - started);
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
  parentPort?.postMessage({ workerLate: ended(), batch });
  await own.close();
}

async function apply(): Promise<void> {
  const { manifests } = trialInput<{ manifests: string }>();
  const { objects } = await loadManifests([manifests]);
  const agent = stages();
  const worker = new Worker(new URL(import.meta.url));
  const message = () => new Promise<Record<string, number>>((resolve) => worker.once('message', resolve));
  await message();
  const ended = watchLoop();
  const { apply: applied, render, kernel } = await agent.enforce(objects);
  const late = ended();
  worker.postMessage('end');
  answer({ late, ...(await message()), render, apply: applied, kernel });
  await agent.close();
}

await (isMainThread ? apply() : renew());
