import type { Config } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { exitWithParent } from '../../lib/process/child-module.ts';
import type { MirrorMessage } from './mirrored-process.ts';
import { MirrorReceiver } from './object-mirror.ts';

/** The objects when a question comes. */
export interface Mirrored {
  readonly config: Config;
  readonly objects: ClusterObjects;
}

/**
 * The other end of a MirroredProcess: calls `answer` with each question, and the objects as the
 * updates before it say. Does nothing in a process that has no such parent.
 */
export function serveMirrored<Question extends object, Answer extends object>(
  answer: (question: Question, mirrored: Mirrored, send: (answer: Answer) => void) => void,
): void {
  const send = process.send?.bind(process);
  if (send === undefined) return;
  const receiver = new MirrorReceiver();
  let config: Config | null = null;
  process.on('message', (message: MirrorMessage | Question) => {
    if ('config' in message) config = message.config as Config;
    else if ('update' in message)
      receiver.receive((message as Extract<MirrorMessage, { update: unknown }>).update);
    else {
      if (config === null) throw new Error('no configuration was received');
      answer(message as Question, { config, objects: receiver.objects() }, send);
    }
  });
  exitWithParent(process);
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
}
