import type { AdmissionStep } from './admission.ts';
import { admitBody, type BodyAdmission } from './admit-body.ts';
import { WorldReceiver, type WorldUpdate } from './world-mirror.ts';

/** What admission-process.ts sends to the process of this file. */
export type ChildMessage =
  | { readonly update: WorldUpdate }
  | { readonly body: Uint8Array; readonly step: AdmissionStep };

/** The answer to each body, in order; before them any value, when the process is ready. */
export type ChildAnswer = { readonly admission: BodyAdmission | null } | { readonly error: string };

/** Answers each body by the world as the updates before it say. */
function serve(send: (answer: ChildAnswer | 'ready') => void): void {
  const receiver = new WorldReceiver();
  process.on('message', (message: ChildMessage) => {
    if ('update' in message) receiver.take(message.update);
    else send(answerTo(message, receiver));
  });
  process.on('disconnect', () => process.exit());
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  send('ready');
}

function answerTo(
  { body, step }: { readonly body: Uint8Array; readonly step: AdmissionStep },
  { world }: WorldReceiver,
): ChildAnswer {
  try {
    if (world === null) throw new Error('no state was received');
    return { admission: admitBody(body, step, world) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (process.send !== undefined) serve(process.send.bind(process));
