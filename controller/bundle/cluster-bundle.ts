import { parseConfig } from '../../apis/config-file.ts';
import { CONTROLLERS_PATH, type ControllerList } from '../../apis/controller-state.ts';
import { allFlows, FLOWS_LEFT_OUT, type NodeFlows } from '../../apis/node-flows.ts';
import { type NodeData, QUESTION_PATIENCE } from '../../apis/node-question.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { CONFIG_FIELDS, LOG_FIELDS } from '../../apis/shown-fields.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { logLines, pathPart, type SupportBundle } from '../../lib/process/bundle.ts';
import { atOnce, Lane } from '../../lib/process/lane.ts';
import { knownFields, type Redact, redactor } from '../../lib/sharing/safe-text.ts';
import { askNode } from '../kubeapi/ask-nodes.ts';
import { type KubeApi, type ListedObject, listObjects } from '../kubeapi/kube-api.ts';
import { CONTROLLER_STATE, metricsText, NODE_FIELDS } from './node-fields.ts';
import { COLLECTED_LISTS, type CollectedList, NODE_VIEW, PODS } from './own-objects.ts';

interface ClusterBundleOptions {
  readonly request: KubeApi;
  readonly bundle: SupportBundle;
  /** The Nodes whose agents are asked. */
  readonly nodes: readonly string[];
  /** Whether their flow inventories are part of it. */
  readonly withFlows: boolean;
  readonly progress: (done: number, all: number) => void;
}

/** Objects of a list. */
const MOST_OBJECTS = 10_000;
const LISTS_AT_ONCE = 8;
const PODS_AT_ONCE = 16;
/**
 * With four questions each; the controllers answer so many of a user at a time (publish/limits.ts).
 */
const NODES_AT_ONCE = 16;
/** Milliseconds for a list's page; a question to a node, or for a pod's log, has its own. */
const LIST_PATIENCE = 10_000;
const PATIENCE = QUESTION_PATIENCE.agent;
/** The part of each container's log. */
const LOG_QUERY = { tailLines: '5000', limitBytes: String(4 << 20) };
const RECORDS = '1000';
const CONFIG_MAPS = '/api/v1/namespaces/nodewall-system/configmaps';
const SYSTEM_PODS = '/api/v1/namespaces/nodewall-system/pods';

/**
 * Collects what maintainers need to know of a cluster. What cannot be had is named in the bundle;
 * a node that does not answer is waited for once. Rejects only if the bundle cannot be written.
 */
export async function collectCluster(options: ClusterBundleOptions): Promise<void> {
  await new ClusterBundle(options).collect();
}

interface Container {
  readonly pod: string;
  readonly name: string;
  readonly hasRestarted: boolean;
}

class ClusterBundle {
  readonly #options: ClusterBundleOptions;
  /** Names of objects: no credentials. */
  readonly #names = new Set<string>();
  readonly #redact: Redact = redactor(this.#names);
  readonly #views = new Lane();
  #done = 0;
  #all = 0;

  constructor(options: ClusterBundleOptions) {
    this.#options = options;
  }

  async collect(): Promise<void> {
    const { nodes, bundle, withFlows } = this.#options;
    if (!withFlows) bundle.leftOut(...FLOWS_LEFT_OUT);
    const lists = await this.#lists();
    const pods = lists.get(PODS.name) ?? [];
    const containers = pods.flatMap(containersOf);
    this.#all = containers.length + nodes.length;
    await Promise.all([
      this.#versions(),
      this.#controllers(),
      this.#settings(lists.get('daemonsets') ?? []),
      atOnce(containers, PODS_AT_ONCE, (one) => this.#counted(this.#log(one))),
      atOnce(nodes, NODES_AT_ONCE, (node) => this.#counted(this.#node(node))),
    ]);
  }

  /** All lists are read before one is written: texts may have names of any object. */
  async #lists(): Promise<ReadonlyMap<string, readonly ListedObject[]>> {
    const { request, bundle, nodes } = this.#options;
    const asked = new Set(nodes);
    const found = new Map<string, readonly ListedObject[]>();
    await atOnce(COLLECTED_LISTS, LISTS_AT_ONCE, async (list) => {
      const { name, path, query = {}, node } = list;
      const wanted = { path, query, timeout: LIST_PATIENCE };
      const { objects, isCut } = (await this.#had(name, listObjects(request, wanted, MOST_OBJECTS))) ?? {};
      if (objects === undefined) return;
      if (isCut) bundle.missing(name, `more than ${MOST_OBJECTS} objects`);
      const kept = objects.filter((one) => {
        const of = node?.(one);
        return of === undefined || asked.has(of);
      });
      for (const one of kept) for (const known of namesOf(one)) this.#names.add(known);
      found.set(name, kept);
    });
    for (const { name, fields } of COLLECTED_LISTS) await this.#writeList(name, fields, found.get(name));
    return found;
  }

  async #writeList(
    name: string,
    fields: CollectedList['fields'],
    objects: readonly ListedObject[] | undefined,
  ): Promise<void> {
    if (objects === undefined) return;
    const known = objects.map((one) => knownFields(one, fields, this.#redact));
    await this.#options.bundle.addLines(`objects/${name}.jsonl`, known);
  }

  async #versions(): Promise<void> {
    const { request, bundle } = this.#options;
    const path = '/version';
    const version = await this.#had('version', request({ method: 'GET', path, timeout: PATIENCE }));
    const fields = { each: 'plain' } as const;
    if (version !== null)
      await bundle.addValue('api-server.json', knownFields(version, fields, this.#redact));
  }

  /** Collects each controller's state. */
  async #controllers(): Promise<void> {
    const { request, bundle } = this.#options;
    const read = request<Partial<ControllerList>>({
      method: 'GET',
      path: CONTROLLERS_PATH,
      timeout: PATIENCE,
    });
    const list = await this.#had('controllers', read);
    for (const item of list?.items ?? []) {
      if (!('state' in item)) {
        bundle.missing(`controller ${item.metadata.name}`, this.#redact(String(item.problem)));
        continue;
      }
      const folder = `controllers/${pathPart(item.metadata.name)}`;
      const known = knownFields(item.state, CONTROLLER_STATE, this.#redact);
      await bundle.addValue(`${folder}/state.json`, known);
      await bundle.addText(`${folder}/metrics.txt`, metricsText(String(item.state.metrics)));
    }
  }

  /**
   * Collects the settings of the controllers, the agents and the feature gate, as far as they are
   * valid.
   */
  async #settings(daemonSets: readonly ListedObject[]): Promise<void> {
    const { request, bundle } = this.#options;
    for (const name of [...new Set(daemonSets.flatMap(configMapsOf)), 'nodewall-config']) {
      const path = `${CONFIG_MAPS}/${name}`;
      const read = request<{ data?: Readonly<Record<string, string>> }>({
        method: 'GET',
        path,
        timeout: PATIENCE,
      });
      const map = await this.#had(`settings of ${name}`, read);
      if (map === null) continue;
      const { config } = parseConfig(map.data?.['config.yaml'] ?? '', name);
      if (config === null) {
        bundle.missing(`settings of ${name}`, 'config.yaml is not valid');
        continue;
      }
      const off = map.data?.['switch-off'];
      await bundle.addValue(`settings/${name}.json`, {
        ...(knownFields(config, CONFIG_FIELDS, this.#redact) as object),
        ...(off !== undefined && /^(?:now|usual|\d{1,6})$/.test(off) ? { switchOff: off } : {}),
      });
    }
  }

  async #log({ pod, name, hasRestarted }: Container): Promise<void> {
    const { request, bundle } = this.#options;
    for (const previous of hasRestarted ? [false, true] : [false]) {
      const what = `logs/${pathPart(pod)}/${pathPart(name)}${previous ? '-previous' : ''}.jsonl`;
      const query = { container: name, ...LOG_QUERY, ...(previous ? { previous: 'true' } : {}) };
      const path = `${SYSTEM_PODS}/${encodeURIComponent(pod)}/log`;
      const wanted = { method: 'GET', path, query, isText: true, timeout: PATIENCE } as const;
      const text = await this.#had(what, request<string>(wanted));
      if (text !== null) await bundle.addLines(what, logLines(text, LOG_FIELDS, this.#redact));
    }
  }

  /** A node that does not answer the first question is asked nothing else. */
  async #node(node: string): Promise<void> {
    const folder = `nodes/${pathPart(node)}`;
    await Promise.all([this.#view(node, folder), this.#answers(node, folder)]);
  }

  async #answers(node: string, folder: string): Promise<void> {
    const { request, bundle } = this.#options;
    const machine = await this.#asked<{ readonly metrics?: unknown }>(node, 'machine');
    if (machine === null) return;
    const known = knownFields(machine, NODE_FIELDS.machine, this.#redact);
    await bundle.addValue(`${folder}/machine.json`, known);
    if (typeof machine.metrics === 'string')
      await bundle.addText(`${folder}/metrics.txt`, metricsText(machine.metrics));
    const others = ['counters', 'names', 'interfaces', 'records'] as const;
    // An agent answers four at a time.
    await Promise.all(
      others.map(async (about) => {
        const query = new URLSearchParams(about === 'records' ? { lines: RECORDS } : {});
        const found = await this.#had(`${about} of ${node}`, askNode(request, node, about, query));
        if (found === null) return;
        await bundle.addValue(
          `${folder}/${about}.json`,
          knownFields(found, NODE_FIELDS[about], this.#redact),
        );
      }),
    );
    if (this.#options.withFlows) await this.#flows(node, folder);
  }

  /** All kinds of its inventory, page by page; what they have in common is the first line. */
  async #flows(node: string, folder: string): Promise<void> {
    const { request, bundle } = this.#options;
    const ask = (query: URLSearchParams) => askNode<NodeFlows>(request, node, 'flows', query);
    const found = await this.#had(`flows of ${node}`, allFlows(ask));
    if (found === null) return;
    await bundle.addLines(`${folder}/flows.jsonl`, flowLines(found, this.#redact));
  }

  /**
   * Collects the state that the controllers have for the node to enforce, and its last report. One
   * at a time: views are large, and controllers give a user two at once.
   */
  #view(node: string, folder: string): Promise<void> {
    return this.#views.run(() => this.#oneView(node, folder));
  }

  async #oneView(node: string, folder: string): Promise<void> {
    const { request, bundle } = this.#options;
    const path = `${NODE_VIEWS_PATH}/${encodeURIComponent(node)}`;
    const read = request({ method: 'GET', path, timeout: LIST_PATIENCE });
    const view = await this.#had(`view of ${node}`, read);
    if (view === null) return;
    const fields = { ...NODE_VIEW, view: 'whole' } as const;
    await bundle.addValue(`${folder}/view.json`, knownFields(view, fields, this.#redact));
  }

  #asked<T>(node: string, about: NodeData): Promise<T | null> {
    return this.#had(`node ${node}`, askNode<T>(this.#options.request, node, about));
  }

  async #had<T>(what: string, answer: Promise<T>): Promise<T | null> {
    try {
      return await answer;
    } catch (error) {
      this.#options.bundle.missing(what, this.#redact((error as Error).message));
      return null;
    }
  }

  async #counted(work: Promise<void>): Promise<void> {
    await work;
    this.#options.progress(++this.#done, this.#all);
  }
}

function flowLines(found: NodeFlows, redact: Redact): unknown[] {
  const { flows = [], ...rest } = Object(knownFields(found, NODE_FIELDS.flows, redact)) as {
    readonly flows?: readonly unknown[];
  };
  return [rest, ...flows];
}

function nameOf({ metadata }: ListedObject): string {
  return String(metadata?.name);
}

/** The ConfigMap of the agents and controllers: kustomize's has a digest in its name. */
function configMapsOf(daemonSet: ListedObject): string[] {
  const { template } = asFields(daemonSet.spec) ?? {};
  const { volumes } = asFields(asFields(template)?.spec) ?? {};
  const names = asList(volumes).map((one) => asFields(asFields(one)?.configMap)?.name);
  return names.filter((name) => typeof name === 'string');
}

/** The names of an object and, if it is a policy, of its rules. */
function namesOf(object: ListedObject): string[] {
  const { ingress, egress } = Object(object.spec) as Readonly<Record<string, unknown>>;
  const rules = [ingress, egress].flatMap((list) => (Array.isArray(list) ? list : []));
  const names = rules.map((rule) => Object(rule).name).filter((name) => typeof name === 'string');
  const name = nameOf(object);
  // A pod's ReplicaSet is named in Events.
  return [name, name.replace(/-[a-z0-9]{5}$/, ''), ...names];
}

function containersOf(pod: ListedObject): Container[] {
  const { status } = pod as { status?: { containerStatuses?: readonly unknown[] } };
  return (status?.containerStatuses ?? []).map((one) => {
    const { name, restartCount } = Object(one) as { name?: unknown; restartCount?: unknown };
    return { pod: nameOf(pod), name: String(name), hasRestarted: Number(restartCount) > 0 };
  });
}
