import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Namespace, stop } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';

export interface StreamCount {
  readonly sent: number;
  readonly received: number;
  /** Milliseconds without a line. */
  readonly longestGap: number;
  /** Null where every line came back, in order, on the one connection. */
  readonly problem: string | null;
}

export interface Stream {
  /** Ends the connection, and says what was lost. */
  end(): Promise<StreamCount>;
}

/**
 * A connection that lives through what a test does: from one namespace to an echo server in
 * another.
 */
export async function startStream(
  from: Namespace,
  server: { readonly namespace: Namespace; readonly address: string; readonly port: number },
): Promise<Stream> {
  const listening = server.namespace.spawn([await probeProgram(), 'listen', `tcp:${server.port}`]);
  const argv = [
    process.execPath,
    join(import.meta.dirname, 'stream-client.ts'),
    server.address,
    String(server.port),
  ];
  const client = from.spawn(argv);
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  const { value: first } = await lines.next();
  if (first !== 'connected') throw new Error(`stream to ${server.address}:${server.port}: ${first}`);
  return {
    async end() {
      const ended = once(client, 'close');
      client.kill('SIGTERM');
      const { value: last } = await lines.next();
      await ended;
      await stop(listening);
      return JSON.parse(String(last)) as StreamCount;
    },
  };
}
