import type { NodeReport } from '../apis/node-report.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';

/** A node that may still have rules, and why. */
export interface UnclearedNode {
  readonly node: string;
  readonly reason: string;
}

interface Named {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}
interface NodeView extends Named {
  readonly status?: NodeReport;
}
interface List<T> {
  readonly items?: readonly T[];
}

const NO_CONTROLLER = 'no controller answers, so nobody knows';

/**
 * Which nodes have reported, since this object was made, that nothing is enforced. What they
 * reported before counts for nothing: it may be from before they were switched on.
 */
export class SwitchedOffNodes {
  readonly #request: KubeApi;
  /** Times of the reports that were there at the first look. */
  #first: ReadonlyMap<string, string> | null = null;

  constructor(request: KubeApi) {
    this.#request = request;
  }

  /** Takes the reports that are there already: call it before the nodes are switched off. */
  async begin(): Promise<void> {
    const views = await this.#views();
    this.#first = new Map(
      (views ?? []).flatMap(({ metadata: { name }, status }) =>
        status === undefined ? [] : [[name, status.time]],
      ),
    );
  }

  /** The nodes that may still have rules, and how many there are in all. */
  async list(): Promise<{ readonly uncleared: readonly UnclearedNode[]; readonly nodes: number }> {
    const { items = [] } = await this.#request<List<Named>>({ method: 'GET', path: '/api/v1/nodes' });
    const nodes = items.filter(
      ({ metadata }) => (metadata.labels?.['kubernetes.io/os'] ?? 'linux') === 'linux',
    );
    const views = await this.#views();
    const reports = new Map((views ?? []).map(({ metadata, status }) => [metadata.name, status]));
    const uncleared = nodes.flatMap(({ metadata: { name } }) => {
      const reason = views === null ? NO_CONTROLLER : this.#reason(name, reports.get(name));
      return reason === null ? [] : [{ node: name, reason }];
    });
    return { uncleared, nodes: nodes.length };
  }

  /** Null: it has no rules. */
  #reason(node: string, report: NodeReport | undefined): string | null {
    if (report === undefined) return 'its agent has not reported to the controllers that run now';
    if (report.time === this.#first?.get(node)) return `its agent has not reported since ${report.time}`;
    if (report.enabled || report.enforced !== null)
      return `its last report, of ${report.time}, is of rules in force`;
    return null;
  }

  /** Null: no controller answers. */
  async #views(): Promise<readonly NodeView[] | null> {
    try {
      return (await this.#request<List<NodeView>>({ method: 'GET', path: NODE_VIEWS_PATH })).items ?? [];
    } catch (error) {
      if (isKubeError(error, 'NotFound', 'ServiceUnavailable', 'Timeout') || isUnavailable(error))
        return null;
      throw error;
    }
  }
}

/** The aggregator's answers while the controllers' Service has no pod that answers. */
function isUnavailable(error: unknown): boolean {
  return isKubeError(error) && error.status >= 500;
}
