import { isDeepStrictEqual } from 'node:util';
import { checkMachine } from '../agent/check/machine-check.ts';
import { nodeData } from '../agent/inspect/node-data.ts';
import { ruleCounts } from '../agent/inspect/rule-counts.ts';
import { readStateIfAny } from '../agent/inspect/saved-state.ts';
import type { NodeState } from '../apis/compiled.ts';
import { emptyNodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { Overview } from '../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../apis/console-documents.ts';
import type { Answered, NodeQuestion } from '../apis/node-question.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import type { NodeTotals } from '../apis/stream.ts';
import { auditOf } from '../controller/console/audit.ts';
import { deniedPeers } from '../controller/console/denied-peers.ts';
import { type ConsoleDocuments, NoDocumentError } from '../controller/console/documents.ts';
import { DropHistory } from '../controller/console/drop-history.ts';
import { OverviewWatchers } from '../controller/console/overview-watchers.ts';
import type { StaticFiles } from '../controller/console/static-files.ts';
import { Surveys } from '../controller/console/surveys.ts';
import type { CheckLine } from '../lib/process/check-line.ts';
import { systemClock } from '../lib/process/clock.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { memo } from '../lib/sharing/memo.ts';
import { machineOverview, policiesOf, type SeenMachine } from './machine-overview.ts';
import { openFlows } from './node-flows.ts';

export interface MachineDocumentsOptions {
  readonly files: Pick<StaticFiles, 'file'>;
  readonly stateDir: string;
  readonly config: Config;
  readonly name: string;
  /** The objects of the manifests; null: they are not known. */
  readonly objects: () => Promise<ClusterObjects | null>;
  readonly failed: (error: unknown) => void;
}

/** Milliseconds for which the checks of the machine hold: they try things in the kernel. */
const KEEP_CHECKS = 60_000;
const NO_OBJECTS =
  'the agent of this machine reads no manifests, so its policies are not known here; where it follows a controller, ask the console of the cluster';

/** The console's documents of this machine: what its agent has saved, and the kernel. */
export class MachineDocuments implements ConsoleDocuments {
  readonly files: ConsoleDocuments['files'];
  readonly watchers: OverviewWatchers;
  readonly #options: MachineDocumentsOptions;
  readonly #drops: DropHistory;
  readonly #surveys: Surveys;
  /** The same list for the same state. */
  readonly #policies = memo((state: NodeState) => policiesOf(state));
  #state: NodeState;
  #objects: ClusterObjects | null = null;
  #overview: Overview | null = null;
  #totals: NodeTotals | null = null;
  #checks: { readonly at: number; readonly lines: Promise<readonly CheckLine[]> } | null = null;

  constructor(options: MachineDocumentsOptions) {
    const { name, config, files, failed } = options;
    this.#options = options;
    this.files = files;
    this.#state = emptyNodeState(name);
    const now = (): number => Date.now();
    this.#drops = new DropHistory({ scope: 'machine', policies: () => this.#policies(this.#state), now });
    this.#surveys = new Surveys({
      ...{ scope: 'machine', config, clock: systemClock },
      objects: () => this.#objects,
      ask: (_, question) => this.ask(question),
    });
    this.watchers = new OverviewWatchers({ overview: () => this.overview(), clock: systemClock, failed });
  }

  async overview(): Promise<Overview> {
    const { stateDir, name } = this.#options;
    const state = await readStateIfAny(stateDir);
    const checks = await this.#lines();
    const facts: SeenMachine = { state, name: state?.node ?? name, checks, stateDir, now: new Date() };
    const now = await machineOverview(facts, this.#overview);
    const before = this.#overview;
    this.#overview = before === null ? now : withSame(before, now);
    return this.#overview;
  }

  /** Reads the counters: what they grow by is what was dropped. */
  async count(): Promise<void> {
    const { stateDir } = this.#options;
    const state = await readStateIfAny(stateDir);
    if (state === null) return;
    if (!isDeepStrictEqual(state.rules, this.#state.rules)) this.#state = state;
    const { rules } = await ruleCounts(stateDir);
    const denying = rules.filter(
      ({ mode, action }) => mode === 'Enforce' && (action === 'Drop' || action === 'Reject'),
    );
    const totals: NodeTotals = {
      ...{ drifts: 0, rollbacks: 0, recordsLost: 0, failsafeRules: 0 },
      denied: denying.reduce((sum, { packets }) => sum + packets, 0),
      rules: denying.map(({ id, packets, bytes }) => [id, packets, bytes]),
    };
    const { node } = state;
    if (this.#totals !== null) this.#drops.take({ node, totals }, { totals: this.#totals });
    this.#totals = totals;
  }

  drops(): Drops {
    return this.#drops.document('counted since this console was started');
  }

  hasNode(name: string): boolean {
    return name === (this.#overview?.nodes[0]?.name ?? this.#options.name);
  }

  async peers(): Promise<DeniedPeers> {
    const ask = (_: string, question: NodeQuestion) => this.ask(question);
    return await deniedPeers('machine', { ask, nodes: await this.#names(), all: 1 }, () => new Date());
  }

  async audit(): Promise<Audit> {
    const policies = policiesOf(await readStateIfAny(this.#options.stateDir));
    const ask = (_: string, question: NodeQuestion) => this.ask(question);
    return await auditOf({ scope: 'machine', ask, policies, only: null, now: () => new Date() });
  }

  async lint(): Promise<Lint> {
    await this.#readObjects();
    return await this.#surveys.lint();
  }

  async preview(yaml: string, user: string): Promise<Preview> {
    await this.#readObjects();
    return await this.#surveys.preview(yaml, user);
  }

  /** Answers as an agent would answer a controller. */
  async ask(question: NodeQuestion): Promise<Answered> {
    const { stateDir, config } = this.#options;
    try {
      const flows = question.about === 'flows' ? await openFlows(stateDir, config) : null;
      return { text: await nodeData(question, { stateDir, config, metrics: null, flows }) };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return { problem: error.message, ...(error.status === EXIT.usage ? { isRefused: true } : {}) };
    }
  }

  close(): void {
    this.watchers.close();
    this.#surveys.close();
  }

  async #names(): Promise<string[]> {
    return (await this.overview()).nodes.map(({ name }) => name);
  }

  async #readObjects(): Promise<void> {
    const objects = await this.#options.objects();
    if (objects === null) throw new NoDocumentError(NO_OBJECTS);
    if (!isDeepStrictEqual(objects, this.#objects)) this.#objects = objects;
  }

  #lines(): Promise<readonly CheckLine[]> {
    const now = systemClock.now();
    if (this.#checks === null || now - this.#checks.at > KEEP_CHECKS) {
      const { stateDir, config } = this.#options;
      this.#checks = { at: now, lines: checkMachine({ stateDir, config, root: '' }) };
    }
    return this.#checks.lines;
  }
}

/** Unchanged parts are the same objects, as watchers need it. */
function withSame(before: Overview, now: Overview): Overview {
  const same = <T>(was: T, is: T): T => (isDeepStrictEqual(was, is) ? was : is);
  return {
    ...now,
    nodes: same(before.nodes, now.nodes),
    policies: now.policies.map(
      (one) => before.policies.find((other) => isDeepStrictEqual(one, other)) ?? one,
    ),
    rollouts: same(before.rollouts, now.rollouts),
    problems: same(before.problems, now.problems),
  };
}
