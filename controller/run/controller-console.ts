import type { NodeReport } from '../../apis/node-report.ts';
import { ClusterOverview } from '../console/cluster-overview.ts';
import { ConsoleDocuments } from '../console/console-requests.ts';
import { DropHistory } from '../console/drop-history.ts';
import { OverviewWatchers } from '../console/overview-watchers.ts';
import { CONSOLE_FILES, StaticFiles } from '../console/static-files.ts';
import { Surveys } from '../console/surveys.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { Hub } from '../publish/hub.ts';
import type { NodeQuestionService } from '../publish/node-questions.ts';
import type { NodeReports } from '../publish/node-reports.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import type { UnsetGates } from './cluster-settings.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import type { PolicyStatuses } from './policy-statuses.ts';

interface ControllerConsoleOptions {
  readonly context: Pick<ControllerContext, 'config' | 'log' | 'options'>;
  readonly clock: ProcessContext['clock'];
  readonly hub: Pick<Hub, 'nodes' | 'revision' | 'gate'>;
  readonly compiling: Pick<Compiling, 'snapshot' | 'objects' | 'policies'>;
  readonly reports: Pick<NodeReports, 'get'>;
  readonly statuses: Pick<PolicyStatuses, 'keeper' | 'guardrails'>;
  readonly questions: Pick<NodeQuestionService, 'ask'>;
  /** Why reports of agents are not known yet; null: they are. */
  readonly missing: () => string | null;
  readonly unsetGates: Pick<UnsetGates, 'remark'>;
}

/** The console of a cluster, wired; every replica has one. */
export class ControllerConsole {
  readonly documents: ConsoleDocuments;
  readonly #overview: ClusterOverview;
  readonly #watchers: OverviewWatchers;
  readonly #drops: DropHistory;
  readonly #surveys: Surveys;

  constructor({
    context,
    clock,
    hub,
    compiling,
    reports,
    statuses,
    questions,
    missing,
    unsetGates,
  }: ControllerConsoleOptions) {
    const { config, log, options } = context;
    const ask = questions.ask.bind(questions);
    const policies = () => compiling.policies;
    this.#overview = new ClusterOverview({
      objects: () => compiling.snapshot?.objects ?? null,
      compiled: policies,
      nodes: () => hub.nodes(),
      revision: () => hub.revision,
      isEnabled: () => hub.gate !== false,
      missing: () => missing() ?? unsetGates.remark(),
      reports,
      clock,
      statuses: statuses.keeper,
      guardrails: () => statuses.guardrails.statuses(),
    });
    this.#watchers = new OverviewWatchers({
      overview: () => this.#overview.now(),
      clock,
      failed: (error) =>
        void log.error('cannot compute the overview of the console', { error: messageOf(error) }),
    });
    const now = (): number => clock.date().getTime();
    this.#drops = new DropHistory({ policies, now });
    const objects = () => compiling.objects;
    this.#surveys = new Surveys({ config, objects, ask, clock });
    this.documents = new ConsoleDocuments({
      files: new StaticFiles(options.consoleFiles ?? CONSOLE_FILES),
      watchers: this.#watchers,
      overview: this.#overview,
      drops: this.#drops,
      surveys: this.#surveys,
      ask,
      policies,
      missing,
      clock,
      nodes: () => hub.nodes(),
    });
  }

  /** The state of the cluster, or a report, is another one. */
  changed(): void {
    this.#watchers.changed();
  }

  version(before: WatchedPolicy | null, now: WatchedPolicy | null): void {
    this.#overview.version(before, now);
    this.changed();
  }

  /** @param before the same node's report before this one; null: this is the first */
  receive(report: NodeReport, before: NodeReport | null): void {
    this.#drops.receive(report, before);
    this.changed();
  }

  /** Their readers begin again, with another controller. */
  endWatches(): void {
    this.#watchers.close();
  }

  close(): void {
    this.#watchers.close();
    this.#surveys.close();
  }
}
