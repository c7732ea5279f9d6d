/**
 * Saves a manifest file again and again, by rename, and looks with real connections when the kernel
 * enforces it. Runs in the client's namespace; each version of the file turns one port from open to
 * refused or back.
 */
import { copyFile, rename } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { trialInput } from './trial.ts';

interface Input {
  readonly path: string;
  readonly temporary: string;
  /** Files with what is saved, by verdict; beside the manifests directory, on the same disk. */
  readonly versions: { readonly refused: string; readonly open: string };
  readonly address: string;
  readonly port: number;
  readonly saves: number;
}

/** Between two looks. */
const RESOLUTION = 1;
const LIMIT = 10_000;

const { path, temporary, versions, address, port, saves } = trialInput<Input>();
const latencies: number[] = [];
for (let i = 0; i < saves; i++) {
  const wanted = i % 2 === 0 ? 'refused' : 'open';
  await copyFile(versions[wanted], temporary);
  if ((await look()) === wanted) throw new Error(`the port was ${wanted} before it was saved`);
  const start = performance.now();
  await rename(temporary, path);
  while ((await look()) !== wanted) {
    if (performance.now() - start > LIMIT) throw new Error(`the port is not ${wanted}`);
    await pause(RESOLUTION);
  }
  latencies.push(performance.now() - start);
  // Not in step with anything that the agent does at intervals.
  await pause(1200 + ((i * 137) % 500));
}
process.stdout.write(`${JSON.stringify(Object.fromEntries(latencies.map((latency, i) => [i, latency])))}\n`);

/** A new connection, cut at once. */
function look(): Promise<'refused' | 'open'> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port });
    socket.once('connect', () => {
      socket.resetAndDestroy();
      resolve('open');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolve('refused');
      else if (error.code !== 'ECONNRESET') reject(error);
    });
  });
}
