/** Who answers for addresses on a link, at each moment. */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';

export interface Answer {
  readonly address: string;
  /** Of those given, by MAC; else the MAC. */
  readonly node: string;
  /** Milliseconds. */
  readonly at: number;
}

export interface NeighbourWatch {
  /** The answers since the last call, in order. */
  answers(): Promise<readonly Answer[]>;
  close(): void;
}

/** On eth0 of a namespace that is neither of the nodes. */
export async function watchNeighbours(
  from: Namespace,
  nodes: ReadonlyMap<string, Namespace>,
  addresses: readonly string[],
): Promise<NeighbourWatch> {
  const own = await eth0(from);
  const macs = await Promise.all(
    [...nodes].map(
      async ([name, namespace]) => [(await eth0(namespace)).mac.replaceAll(':', ''), name] as const,
    ),
  );
  const names = new Map(macs);
  const program = join(import.meta.dirname, 'neighbour-watch-child.ts');
  const child = from.spawn([process.execPath, program, `${own.index}`, own.mac, ...addresses]);
  child.stderr.pipe(process.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async answers() {
      child.stdin.write('\n');
      const noted = JSON.parse((await lines.next()).value ?? '') as {
        address: string;
        mac: string;
        at: number;
      }[];
      return noted.map(({ address, mac, at }) => ({ address, node: names.get(mac) ?? mac, at }));
    },
    close: () => void child.kill('SIGKILL'),
  };
}

async function eth0(namespace: Namespace): Promise<{ readonly index: number; readonly mac: string }> {
  const { stdout } = await namespace.run(['ip', '-j', 'link', 'show', 'dev', 'eth0']);
  const [link] = JSON.parse(stdout) as { ifindex: number; address: string }[];
  if (link === undefined) throw new Error('no eth0');
  return { index: link.ifindex, mac: link.address };
}
