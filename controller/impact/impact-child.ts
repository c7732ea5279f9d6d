import type { Config } from '../../apis/config.ts';
import type { ObjectChange } from './changed-objects.ts';
import { ChangeOverrunError, ImpactJudge, type Judgement, type Violations } from './impact.ts';
import { MirrorReceiver, type MirrorUpdate } from './object-mirror.ts';

/** Sent by impact-process.ts to the process of this file; the configuration comes first. */
export type ChildMessage =
  | { readonly config: Config }
  | { readonly update: MirrorUpdate }
  | { readonly ask: 'violations' }
  | { readonly ask: 'change'; readonly change: ObjectChange; readonly times: ChangeTimes };

/** Milliseconds from now on. */
export interface ChangeTimes {
  readonly all: number;
  /** Of `all`, for the difference. */
  readonly difference: number;
}

/** The answers to each question, in order: one, but for a change with a judgement, then the lines. */
export type ChildAnswer =
  | { readonly violations: Violations }
  | { readonly judgement: Judgement }
  | { readonly lines: readonly string[] }
  | { readonly error: string; readonly isLate: boolean };

/** Answers each question by the objects as the updates before it say. */
function serve(send: (answer: ChildAnswer) => void): void {
  const receiver = new MirrorReceiver();
  let config: Config | null = null;
  let judge: ImpactJudge | null = null;
  const answer = (message: Extract<ChildMessage, { readonly ask: string }>): void => {
    if (config === null) throw new Error('no configuration was received');
    // A judge that threw may be inconsistent: the next question begins anew.
    const current = judge ?? new ImpactJudge(config);
    judge = null;
    const objects = receiver.objects();
    if (message.ask === 'violations') send({ violations: current.violations(objects) });
    else {
      const { all, difference } = message.times;
      const end = performance.now() + all;
      const judged = current.judge(objects, message.change, until(end));
      // Sent at once: what comes after it may take too much time or memory.
      send({ judgement: judged.judgement });
      send({ lines: current.lines(judged, until(Math.min(end, performance.now() + difference))) });
    }
    judge = current;
  };
  process.on('message', (message: ChildMessage) => {
    if ('config' in message) config = message.config;
    else if ('update' in message) receiver.take(message.update);
    else {
      try {
        answer(message);
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        send({ error: text, isLate: error instanceof ChangeOverrunError });
      }
    }
  });
  process.on('disconnect', () => process.exit());
  // Signals are for the controller, which serves on for a while; they may reach all its processes.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
}

function until(end: number): () => void {
  return () => {
    if (performance.now() > end) throw new ChangeOverrunError('the time for the change is over');
  };
}

if (process.send !== undefined) serve(process.send.bind(process));
