import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Namespace, stop } from '../netns/namespace.ts';
import type { ByteFaults, Counts, Cut, FaultyProxy, LineFaults } from './faults.ts';
import type { LineProxyOptions } from './line-proxy.ts';
import type { TcpProxyOptions } from './tcp-proxy.ts';

export type Start =
  | { readonly kind: 'tcp'; readonly options: TcpProxyOptions }
  | { readonly kind: 'lines'; readonly options: LineProxyOptions };

export type Command = { readonly set: object } | { readonly cut: Cut } | { readonly count: true };

/** tcpProxy in a network namespace. */
export function tcpProxyIn(namespace: Namespace, options: TcpProxyOptions): Promise<FaultyProxy<ByteFaults>> {
  return proxyIn(namespace, { kind: 'tcp', options });
}

/** lineProxy in a network namespace. */
export function lineProxyIn(
  namespace: Namespace,
  options: LineProxyOptions,
): Promise<FaultyProxy<LineFaults>> {
  return proxyIn(namespace, { kind: 'lines', options });
}

async function proxyIn(namespace: Namespace, start: Start): Promise<FaultyProxy<object>> {
  const program = join(import.meta.dirname, 'main.ts');
  const child = namespace.spawn([process.execPath, program, JSON.stringify(start)]);
  let errors = '';
  child.stderr.on('data', (part) => {
    errors += part;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<Counts> => {
    const { done, value } = await lines.next();
    if (done) throw new Error(`the proxy ended\n${errors}`);
    return JSON.parse(value);
  };
  const { port = 0 } = await answer();
  const say = (command: Command): Promise<Counts> => {
    child.stdin.write(`${JSON.stringify(command)}\n`);
    return answer();
  };
  return {
    port,
    set: async (faults) => void (await say({ set: faults })),
    cutAll: async (cut) => void (await say({ cut })),
    counts: () => say({ count: true }),
    close: () => stop(child),
  };
}
