import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import { relay } from '../netns/relay.ts';

/** A running `kubectl proxy`. */
export interface KubectlProxy {
  /** Of loopback in its namespace. */
  readonly port: number;
  /** By which it is reached from outside of its namespace. */
  readonly socketPath: string;
  end(): Promise<void>;
}

/**
 * Starts the real `kubectl proxy`, as its users do.
 *
 * @param program test/cluster/build.ts
 * @param folder for the socket by which it is reached from outside of the namespace
 */
export async function startKubectlProxy(
  inside: Namespace,
  { program, folder, kubeconfig }: Readonly<Record<'program' | 'folder' | 'kubeconfig', string>>,
  flags: readonly string[] = [],
): Promise<KubectlProxy> {
  const env = { ...process.env, HOME: folder, KUBECONFIG: kubeconfig };
  const child = inside.spawn([program, 'kubectl', 'proxy', '--port=0', ...flags], { env });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece;
  });
  const ended = once(child, 'close');
  const line = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
  const [, port] = /^Starting to serve on 127\.0\.0\.1:(\d+)$/.exec(String(line[0])) ?? [];
  if (port === undefined) throw new Error(`kubectl proxy: ${line[0]}: ${said}`);
  const socketPath = join(folder, `proxy-${port}.socket`);
  await relay(inside, { path: socketPath }, { host: '127.0.0.1', port: Number(port) });
  return {
    port: Number(port),
    socketPath,
    async end() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
