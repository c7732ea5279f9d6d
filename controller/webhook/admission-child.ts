import { readSync } from 'node:fs';
import { exitWithParent } from '../../lib/process/child-module.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import type { AdmissionExtension } from '../extension/object-extension.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import type { AdmissionStep } from './admission.ts';
import { admitBody, type BodyAdmission } from './admit-body.ts';
import { WorldReceiver, type WorldUpdate } from './world-mirror.ts';

/** Sent by admission-process.ts to the process of this file; a body's bytes follow by its stdin. */
export type ChildMessage =
  | { readonly update: WorldUpdate }
  | { readonly length: number; readonly step: AdmissionStep };

/** The answer to each body, in order; before them any value, when the process is ready. */
export type ChildAnswer = { readonly admission: BodyAdmission | null } | { readonly error: string };

/** Answers each body by the world as the updates before it say. */
function serve(send: (answer: ChildAnswer | 'ready') => void): void {
  const receiver = new WorldReceiver();
  const extension = OBJECT_EXTENSION.admission();
  process.on('message', (message: ChildMessage) => {
    if ('update' in message) receiver.receive(message.update);
    else send(answerTo(readBytes(message.length), message.step, receiver, extension));
  });
  exitWithParent(process);
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  send('ready');
}

const STDIN = 0;

/** Waits for them: this process has nothing else to do. */
function readBytes(length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  for (let at = 0; at < length; ) {
    const count = readSync(STDIN, bytes, { offset: at });
    // The controller has ended.
    if (count === 0) process.exit();
    at += count;
  }
  return bytes;
}

function answerTo(
  body: Uint8Array,
  step: AdmissionStep,
  { world }: WorldReceiver,
  extension: AdmissionExtension,
): ChildAnswer {
  try {
    if (world === null) throw new Error('no state was received');
    return { admission: admitBody(body, step, world, extension) };
  } catch (error) {
    return { error: errorMessage(error) };
  }
}

if (process.send !== undefined) serve(process.send.bind(process));
