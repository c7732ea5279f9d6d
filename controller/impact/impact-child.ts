import type { Config } from '../../apis/config.ts';
import type { ObjectChange } from './changed-objects.ts';
import { ChangeOverrunError, type Impact, ImpactJudge, type Violations } from './impact.ts';
import { MirrorReceiver, type MirrorUpdate } from './object-mirror.ts';

/** Sent by impact-process.ts to the process of this file; the configuration comes first. */
export type ChildMessage =
  | { readonly config: Config }
  | { readonly update: MirrorUpdate }
  | { readonly ask: 'violations' }
  /** @param time milliseconds for the difference, from now on */
  | { readonly ask: 'change'; readonly change: ObjectChange; readonly time: number };

/** The answer to each question, in order. */
export type ChildAnswer =
  | { readonly violations: Violations }
  | { readonly impact: Impact }
  | { readonly error: string };

/** Answers each question by the objects as the updates before it say. */
function serve(send: (answer: ChildAnswer) => void): void {
  const receiver = new MirrorReceiver();
  let config: Config | null = null;
  let judge: ImpactJudge | null = null;
  const answerTo = (message: Extract<ChildMessage, { readonly ask: string }>): ChildAnswer => {
    if (config === null) return { error: 'no configuration was received' };
    // A judge that threw may be inconsistent: the next question begins anew.
    const current = judge ?? new ImpactJudge(config);
    judge = null;
    const objects = receiver.objects();
    const answer: ChildAnswer =
      message.ask === 'violations'
        ? { violations: current.violations(objects) }
        : { impact: current.change(objects, message.change, { checkpoint: until(message.time) }) };
    judge = current;
    return answer;
  };
  process.on('message', (message: ChildMessage) => {
    if ('config' in message) config = message.config;
    else if ('update' in message) receiver.take(message.update);
    else {
      try {
        send(answerTo(message));
      } catch (error) {
        send({ error: error instanceof Error ? error.message : String(error) });
      }
    }
  });
  process.on('disconnect', () => process.exit());
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
}

function until(time: number): () => void {
  const end = performance.now() + time;
  return () => {
    if (performance.now() > end) throw new ChangeOverrunError('the time for the difference is over');
  };
}

if (process.send !== undefined) serve(process.send.bind(process));
