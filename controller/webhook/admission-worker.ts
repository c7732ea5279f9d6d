import { type MessagePort, parentPort } from 'node:worker_threads';
import type { AdmissionStep } from './admission.ts';
import { admitBody, type BodyAdmission } from './admit-body.ts';
import { WorldReceiver, type WorldUpdate } from './world-mirror.ts';

/** What admission-thread.ts sends to the thread of this file. */
export type WorkerMessage =
  | { readonly update: WorldUpdate }
  | { readonly body: Uint8Array; readonly step: AdmissionStep };

/** The answer to each body, in order; before them any value, when the thread is ready. */
export type WorkerAnswer = { readonly admission: BodyAdmission | null } | { readonly error: string };

/** Answers each body by the world as the updates before it say. */
function serve(port: MessagePort): void {
  const receiver = new WorldReceiver();
  port.on('message', (message: WorkerMessage) => {
    if ('update' in message) receiver.take(message.update);
    else port.postMessage(answerTo(message, receiver));
  });
  port.postMessage('ready');
}

function answerTo(
  { body, step }: { readonly body: Uint8Array; readonly step: AdmissionStep },
  { world }: WorldReceiver,
): WorkerAnswer {
  try {
    if (world === null) throw new Error('no state was received');
    return { admission: admitBody(body, step, world) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (parentPort !== null) serve(parentPort);
