import { setImmediate as turn } from 'node:timers/promises';
import type { Config } from '../../apis/config.ts';
import type { Lint, Preview, PreviewImpact } from '../../apis/console-documents.ts';
import { mayBeInRow } from '../../apis/difference/row.ts';
import type { Flow } from '../../apis/flow.ts';
import { type NodeFlow, parseNodeFlows } from '../../apis/node-flows.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { siblingModule } from '../../lib/process/exit.ts';
import { CostQueue } from '../../lib/process/fair-queue.ts';
import type { MirroredProcess } from '../../lib/process/mirrored-process.ts';
import { present } from '../../lib/sharing/present.ts';
import { mirroredObjects } from '../impact/object-mirror.ts';
import { type AskNode, askNodes, FlowSums } from './node-answers.ts';
import type { DeniedRows } from './preview.ts';
import type { SurveyAnswer, SurveyChildQuestion, SurveyQuestion } from './survey-child.ts';

/** There is no document now; the message says why, and what to do. */
export class NoDocumentError extends Error {
  override readonly name = 'NoDocumentError';
}

interface SurveysOptions {
  readonly config: Config;
  /** The objects as they are compiled now; null: not known yet. */
  readonly objects: () => ClusterObjects | null;
  readonly ask: AskNode;
  readonly clock: WallClock;
  readonly limits?: SurveyLimits;
}

interface SurveyLimits {
  /** Milliseconds for the computation of each. */
  readonly lint: number;
  readonly preview: number;
  /** Milliseconds beyond them for the objects to come to the process; then it is ended. */
  readonly grace: number;
  /** Megabytes of the process's heap. */
  readonly heap: number;
  /** Milliseconds without a question until the process is ended: it holds the whole cluster. */
  readonly rest: number;
}

const SURVEY_LIMITS: SurveyLimits = {
  lint: 20_000,
  preview: 8_000,
  grace: 10_000,
  heap: 1024,
  rest: 300_000,
};

/** Questions that wait or are answered, of one user and of all. */
const MOST_OF_USER = 2;
const MOST_WAITING = 16;

const LINT_LATE =
  'the lint takes too long here; nodewall lint --manifests on a copy of the policies has the time';
const PREVIEW_LATE = 'the preview takes too long here; nodewall diff --against-cluster has the time for it';

/**
 * Lint and previews, in a process of their own with limits of time and memory: one at a time, by
 * turns of the users. That of the webhook is another one, which nobody's previews delay.
 */
export class Surveys {
  readonly #options: SurveysOptions;
  readonly #limits: SurveyLimits;
  readonly #process: MirroredProcess<ClusterObjects, SurveyChildQuestion, SurveyAnswer>;
  readonly #turns = new CostQueue(1);
  /** By user. */
  readonly #asked = new Map<string, number>();
  /** The findings on these objects; the same for all who ask until there are others. */
  #lint: { readonly of: ClusterObjects | null; readonly lint: Promise<Lint> } | null = null;
  #cancel: (() => void) | null = null;
  #isClosed = false;

  constructor(options: SurveysOptions) {
    const { limits = SURVEY_LIMITS } = options;
    this.#options = options;
    this.#limits = limits;
    const file = siblingModule(import.meta, 'survey-child');
    this.#process = mirroredObjects({ file, heap: limits.heap });
  }

  /** Throws NoDocumentError if it takes too long, or the objects are not known yet. */
  async lint(): Promise<Lint> {
    const { objects } = this.#options;
    const of = objects();
    if (this.#lint?.of === of) return await this.#lint.lint;
    const lint = this.#makeLint();
    this.#lint = { of, lint };
    // A failure is not kept.
    lint.catch(() => {
      if (this.#lint?.lint === lint) this.#lint = null;
    });
    return await lint;
  }

  /**
   * Throws NoDocumentError if too many are asked for, or it takes too long.
   *
   * @param user whose turn it is, by name
   */
  async preview(yaml: string, user: string): Promise<Preview> {
    const own = this.#asked.get(user) ?? 0;
    if (own >= MOST_OF_USER || this.#turns.waiting >= MOST_WAITING)
      throw new NoDocumentError('too many previews at once; retry later');
    this.#asked.set(user, own + 1);
    try {
      const { preview: time } = this.#limits;
      const answer = await this.#turns.run(`user ${user}`, 0, () =>
        this.#ask({ ask: 'preview', yaml, time }),
      );
      if (!('preview' in answer)) throw new NoDocumentError(PREVIEW_LATE);
      const { preview, denied } = answer.preview;
      const { ask, clock } = this.#options;
      const isValid = preview.problems.every(({ severity }) => severity !== 'error');
      const impact = isValid
        ? await previewImpact(preview, denied, ask)
        : { reason: 'the objects have errors' };
      return { time: clock.date().toISOString(), ...preview, impact };
    } finally {
      const left = (this.#asked.get(user) ?? 0) - 1;
      if (left > 0) this.#asked.set(user, left);
      else this.#asked.delete(user);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#process.close();
  }

  async #makeLint(): Promise<Lint> {
    const time = this.#options.clock.date().toISOString();
    const question = { ask: 'lint', time: this.#limits.lint } as const;
    const answer = await this.#turns.run('lint', 0, () => this.#ask(question));
    if (!('lint' in answer)) throw new NoDocumentError(LINT_LATE);
    return { time, ...answer.lint };
  }

  /** An answer that says that it is late, where the process had to be ended. */
  async #ask(asked: SurveyQuestion): Promise<SurveyAnswer> {
    const { config, objects, clock } = this.#options;
    const state = objects();
    if (state === null)
      throw new NoDocumentError('this controller has not published any state yet; retry later');
    this.#cancel?.();
    const { grace, rest } = this.#limits;
    const question = { ...asked, config };
    const [answer] = await this.#process.ask({ state, question, time: asked.time + grace });
    if (!this.#isClosed) this.#cancel = clock.after(rest, () => this.#process.end());
    if (answer === undefined) return { error: 'the process was ended', isLate: true };
    if ('error' in answer && !answer.isLate) throw new Error(answer.error);
    return answer;
  }
}

/** Kinds of flows of a node's answer: the last seen. */
const SEEN: NodeQuestion = { about: 'flows', query: 'lines=1500' };
/** Kinds that are compared without a pause for others. */
const AT_ONCE = 200;

/** The flows that nodes have seen among what a change would deny. */
async function previewImpact(
  { noDifference }: Pick<Preview, 'noDifference'>,
  denied: readonly DeniedRows[],
  ask: AskNode,
): Promise<PreviewImpact> {
  if (noDifference !== null)
    return { reason: 'without the difference nothing can be compared with what nodes see' };
  const groups = new Map(denied.flatMap((group) => group.nodes.map((node) => [node, group])));
  const nodes = [...groups.keys()].sort();
  if (nodes.length === 0) return { reason: 'nothing that is allowed now would be denied' };
  const seen: { readonly node: string; readonly flow: NodeFlow }[] = [];
  const asked = await askNodes({ ask, nodes, all: nodes.length }, [SEEN], (node, _, answer) => {
    for (const flow of parseNodeFlows(answer).flows) if (flow.verdict === 'Allow') seen.push({ node, flow });
  });
  const sums = new FlowSums();
  for (const [i, { node, flow }] of seen.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await turn();
    const { rows = [] } = groups.get(node) ?? {};
    const common = commonFlow(flow);
    if (rows.some((row) => mayBeInRow(row, common))) sums.add(node, flow);
  }
  return { asked, ...sums.first() };
}

/** A flow with the fields that all flows of the kind have. */
function commonFlow({ direction, traffic, peer, protocol, port, icmpType }: NodeFlow): Flow {
  const isOne = !peer.includes('/');
  return {
    direction,
    traffic,
    protocol,
    ...(isOne ? { [direction === 'ingress' ? 'src' : 'dst']: peer } : {}),
    ...present({ dstPort: port, icmpType }),
  };
}
