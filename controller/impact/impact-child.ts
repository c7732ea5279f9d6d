import type { Config } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { ChangeOverrunError, ImpactJudge, type ImpactJudgement, type Violations } from './impact.ts';
import { type ObjectChange, serveObjects } from './object-mirror.ts';

/** The questions of impact-process.ts to the process of this file. */
export type ImpactQuestion =
  | { readonly ask: 'violations' }
  | { readonly ask: 'change'; readonly change: ObjectChange; readonly times: ChangeTimes };

/** With the configuration, which stays the same. */
export type ImpactChildQuestion = ImpactQuestion & { readonly config: Config };

/** Milliseconds from now on. */
interface ChangeTimes {
  readonly all: number;
  /** The difference's part of `all`. */
  readonly difference: number;
}

/** The answers to each question, in order: one; to a change a judgement, then the lines. */
export type ImpactChildAnswer =
  | { readonly violations: Violations }
  | { readonly judgement: ImpactJudgement }
  | { readonly lines: readonly string[] }
  | { readonly error: string; readonly isLate: boolean };

/** The judge of this process. One that threw may be inconsistent: the next question has another. */
function judging() {
  let judge: ImpactJudge | null = null;
  return (
    question: ImpactChildQuestion,
    objects: ClusterObjects,
    send: (answer: ImpactChildAnswer) => void,
  ): void => {
    const current = judge ?? new ImpactJudge(question.config);
    judge = null;
    try {
      if (question.ask === 'violations') send({ violations: current.violations(objects) });
      else {
        const { all, difference } = question.times;
        const end = performance.now() + all;
        const judged = current.judge(objects, question.change, until(end));
        // Sent at once: what comes after it may take too much time or memory.
        send({ judgement: judged.judgement });
        send({ lines: current.lines(judged, until(Math.min(end, performance.now() + difference))) });
      }
      judge = current;
    } catch (error) {
      const text = errorMessage(error);
      send({ error: text, isLate: error instanceof ChangeOverrunError });
    }
  };
}

function until(end: number): () => void {
  return () => {
    if (performance.now() > end) throw new ChangeOverrunError('the time for the change is over');
  };
}

serveObjects(judging());
