import { stringify } from 'yaml';
import { CONFIG_SCHEMA } from '../../../apis/schema/config.ts';
import type { JsonSchema } from '../../../apis/schema/json-schema.ts';
import { DASHBOARD_LABELS } from '../monitoring/rules.ts';

/** A value of the chart, or a group of them. */
type ChartValue =
  | { readonly kind: 'group'; readonly values: Readonly<Record<string, ChartValue>> }
  | {
      readonly kind: 'value';
      readonly description: string;
      readonly initial: unknown;
      readonly schema: HelmSchema;
    };

/** Defaults that the manifests of kustomize have. */
export interface Initial {
  readonly images: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
  readonly replicas: unknown;
  readonly controllerResources: unknown;
  readonly agentResources: unknown;
  readonly agentConfig: unknown;
}

const group = (values: Readonly<Record<string, ChartValue>>): ChartValue => ({ kind: 'group', values });
const value = (description: string, initial: unknown, schema: HelmSchema): ChartValue => ({
  kind: 'value',
  description,
  initial,
  schema,
});
const flag = (description: string, initial = false): ChartValue =>
  value(description, initial, { type: 'boolean' });
const enabled = (description: string): ChartValue => group({ enabled: flag(description) });

const QUANTITIES: HelmSchema = {
  type: 'object',
  additionalProperties: { type: ['string', 'number'], pattern: '^[0-9.]+([eEinumkKMGTP][0-9i]*)?$' },
};
const RESOURCES: HelmSchema = {
  type: 'object',
  additionalProperties: false,
  properties: { requests: QUANTITIES, limits: QUANTITIES },
};
const PULL_SECRETS: HelmSchema = {
  type: 'array',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['name'],
    properties: { name: { type: 'string', minLength: 1 } },
  },
};

/** Labels or annotations. */
const TEXTS: HelmSchema = { type: 'object', additionalProperties: { type: 'string' } };

/** All values of the chart, in the order of values.yaml. */
export function chartValues(initial: Initial): Readonly<Record<string, ChartValue>> {
  return {
    images: images(initial),
    namespace: group({
      create: flag(
        'Namespace nodewall-system is part of the release. The release must then be in another namespace.',
      ),
    }),
    crds: group({
      install: flag('The CustomResourceDefinitions are part of the release. Helm never deletes them.', true),
    }),
    controller: group({
      replicas: value('Replicas of the controller. All serve, one leads.', initial.replicas, {
        type: 'integer',
        minimum: 1,
        maximum: 9,
      }),
      resources: value('Resources of the controller.', initial.controllerResources, RESOURCES),
      preferControlPlane: flag('Controllers run on nodes of the control plane where they can.'),
    }),
    agent: group({ resources: value('Resources of the agent.', initial.agentResources, RESOURCES) }),
    agentConfig: value(
      'The configuration of agents and controllers (docs/configuration.md). `dataplane: iptables` gives the agents what they need for it; `controllerPorts` are the ports of the controllers.',
      initial.agentConfig,
      helmSchema(CONFIG_SCHEMA),
    ),
    singleNode: flag('One controller, without an affinity and a disruption budget.'),
    admission: value(
      'webhook, or policies: ValidatingAdmissionPolicies, where the API server reaches no webhook (docs/platforms.md).',
      'webhook',
      { type: 'string', enum: ['webhook', 'policies'] },
    ),
    aggregatedAPI: flag(
      'Controllers register their aggregated API; without it commands ask their pods (docs/platforms.md).',
      true,
    ),
    webhooks: group({
      failClosed: flag('Without a controller no policy, group or tier can be created or changed.'),
    }),
    certManager: enabled("Certificates of cert-manager instead of the controller's own CA."),
    boot: enabled('Nodes have their last rules before the network is up (docs/boot.md).'),
    egress: group({
      enabled: flag('Agents have NET_RAW, for egress gateways (docs/egress-operations.md).'),
      pods: flag('Agents read the addresses of pods that start, and may install the CNI plugin.'),
    }),
    kubeletKubeconfig: enabled("Agents read the kubelet's kubeconfig, where kubeadm has it."),
    networkPolicies: enabled("A NetworkPolicy opens the controllers' three ports, and no others."),
    prometheusRule: group({
      enabled: flag('A PrometheusRule with alerts, for the Prometheus Operator (docs/metrics.md).'),
      labels: value("Its labels, as the Prometheus' ruleSelector wants them: {release: NAME}.", {}, TEXTS),
    }),
    dashboards: dashboards(),
    priorityQuota: enabled(
      'A ResourceQuota lets pods of nodewall-system have the system priority classes, where the cluster limits them.',
    ),
    seLinux: enabled('Agents run with SELinux type spc_t.'),
    openShift: enabled('SecurityContextConstraints of OpenShift; includes seLinux.'),
    uninstall: uninstall(),
  };
}

function images({ images: [controller, agent] }: Initial): ChartValue {
  const image = (name: string, initial: Initial['images'][number] | undefined): ChartValue =>
    group({
      repository: value(`The ${name}'s image, without a tag.`, initial?.newName, {
        type: 'string',
        minLength: 1,
      }),
      tag: value('Its tag.', initial?.newTag, { type: 'string', pattern: '^[A-Za-z0-9_][A-Za-z0-9_.-]*$' }),
      digest: value('Its digest, sha256:…, which counts before the tag.', '', {
        type: 'string',
        pattern: '^(sha256:[0-9a-f]{64})?$',
      }),
    });
  return group({
    controller: image('controller', controller),
    agent: image('agent', agent),
    pullPolicy: value('When images are pulled; "" is the default of Kubernetes.', '', {
      type: 'string',
      enum: ['', 'Always', 'IfNotPresent', 'Never'],
    }),
    pullSecrets: value('Names of Secrets for the registry: [{name: NAME}].', [], PULL_SECRETS),
  });
}

function dashboards(): ChartValue {
  return group({
    enabled: flag("Dashboards as ConfigMaps, for the sidecar of Grafana's chart (docs/metrics.md)."),
    namespace: value('Their namespace, one that the sidecar looks into.', 'nodewall-system', {
      type: 'string',
      pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
    }),
    labels: value('Their labels, by which the sidecar finds them.', DASHBOARD_LABELS, TEXTS),
    annotations: value('Their annotations, for a folder: {grafana_folder: NAME}.', {}, TEXTS),
  });
}

function uninstall(): ChartValue {
  return group({
    hook: flag('`helm uninstall` first removes the rules of all nodes (docs/cluster.md, Uninstall).', true),
    ignoreUnreachable: flag('`helm uninstall` goes on where nodes do not answer, and prints their names.'),
    timeout: value(
      'How long it waits for the nodes (seconds); less than the --timeout of helm uninstall, which is 5m.',
      240,
      {
        type: 'integer',
        minimum: 10,
        maximum: 3600,
      },
    ),
  });
}

type Values = Readonly<Record<string, ChartValue>>;

/** values.yaml. */
export function valuesText(values: Values): string {
  return Object.entries(values)
    .map(([name, value]) => {
      if (value.kind === 'group') return `${name}:\n${indented(valuesText(value.values))}`;
      return `# ${value.description}\n${stringify({ [name]: value.initial }, { lineWidth: 0 })}`;
    })
    .join('');
}

/** values.schema.json: a key that is no value of the chart is refused. */
export function valuesSchema(values: Values): HelmSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...groupSchema({
      ...values,
      // Helm itself passes it to charts within charts.
      global: { kind: 'value', description: 'Of Helm; not used.', initial: {}, schema: { type: 'object' } },
    }),
  };
}

function groupSchema(values: Values): HelmSchema {
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name,
        value.kind === 'group'
          ? groupSchema(value.values)
          : { ...value.schema, description: value.description },
      ]),
    ),
  };
}

/** Rows of a Markdown table. */
export function valuesTable(values: Values): string {
  const rows = rowsOf(values, '').map((cells) => `| ${cells.join(' | ')} |\n`);
  return `| value | default | meaning |\n| --- | --- | --- |\n${rows.join('')}`;
}

function rowsOf(values: Values, before: string): string[][] {
  return Object.entries(values).flatMap(([name, value]) => {
    const path = `${before}${name}`;
    if (value.kind === 'group') return rowsOf(value.values, `${path}.`);
    return [[`\`${path}\``, `\`${JSON.stringify(value.initial)}\``, value.description]];
  });
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '  ');
}

/** JSON Schema (draft 7) as far as values.schema.json uses it. */
interface HelmSchema {
  readonly $schema?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, HelmSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | HelmSchema;
  readonly items?: HelmSchema;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** The words of JSON Schema that mean the same here and there. */
const WORDS = [
  'type',
  'description',
  'required',
  'enum',
  'minimum',
  'maximum',
  'maxLength',
  'pattern',
] as const;

/** A schema of apis/ for Helm: an object with properties has no others. */
function helmSchema(schema: JsonSchema): HelmSchema {
  const { properties, additionalProperties, items } = schema;
  return {
    ...Object.fromEntries(
      WORDS.flatMap((word) => (schema[word] === undefined ? [] : [[word, schema[word]]])),
    ),
    ...(properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, helmSchema(field)]),
      ),
      additionalProperties: false,
    }),
    ...(additionalProperties !== undefined && { additionalProperties: helmSchema(additionalProperties) }),
    ...(items !== undefined && { items: helmSchema(items) }),
  };
}
