import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ExitStatus } from '../lib/process/exit.ts';

/** A command of `nodewall`. Its code is imported when it runs, so that `--help` stays quick. */
export interface CommandEntry {
  readonly name: string;
  readonly description: string;
  readonly argument?: readonly [name: string, description: string];
  readonly options: readonly Option[];
  readonly examples: readonly string[];
  /** Called as an action of commander is: the arguments, then the options. */
  readonly run?: (...args: Parameters<Parameters<Command['action']>[0]>) => Promise<ExitStatus>;
  readonly commands?: readonly CommandEntry[];
}

const option = (flags: string, description: string, fallback?: unknown): Option =>
  new Option(flags, description).default(fallback);

const collect = (value: string, previous: readonly string[] = []): string[] => [...previous, value];

function manifests(required: boolean): Option {
  return option('--manifests <dir>', 'directory (recursive) or file of manifests; may be repeated')
    .argParser(collect)
    .makeOptionMandatory(required);
}
const node = option('--node <name>', 'name of the Node').makeOptionMandatory();
const config = option('--config <file>', "the agent's configuration (YAML)");
const output = (...formats: readonly string[]): Option =>
  option('-o, --output <format>', 'how to print the result').choices(formats).default(formats[0]);
const strict = option('--strict', 'end with 1 where a policy is invalid and left out', false);
const names = option('--names <file>', 'what fqdn peers resolve to (YAML, name: [addresses])');
const stateDir = option('--state-dir <dir>', 'holds what must survive a restart', '/var/lib/nodewall');
const logFormat = option('--log-format <format>', 'default: text on a terminal, else json').choices([
  'json',
  'text',
]);
const logLevel = (description: string): Option =>
  option('--log-level <level>', description).choices(['error', 'warn', 'info', 'debug']).default('info');
const metricsListen = option(
  '--metrics-listen <host:port>',
  'serve /healthz, /readyz and /metrics (Prometheus)',
);

function relistPeriod(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds, 1 or more');
  return Number(text);
}

const VALIDATE: CommandEntry = {
  name: 'validate',
  description: 'Report every problem in every manifest; ends with 1 if there is any.',
  options: [manifests(true), config, output('text', 'json')],
  examples: ['nodewall validate --manifests /etc/nodewall/manifests'],
  run: async (options) => (await import('./validate.ts')).validate(options),
};

const COMPILE: CommandEntry = {
  name: 'compile',
  description:
    "Print a Node's rules in evaluation order; nft and iptables print as text what the agent would load with that dataplane.",
  options: [
    manifests(true),
    node,
    config,
    names,
    strict,
    option(
      '--stats',
      'what the index costs with nftables: rules tried a packet, maps, elements, memory',
      false,
    ),
    output('table', 'json', 'nft', 'iptables'),
  ],
  examples: [
    'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o nft',
    'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml    # www.example.com: [192.0.2.7]',
    'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o iptables    # ipset restore, then iptables-restore of each family',
    'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --stats',
  ],
  run: async (options) => (await import('./compile.ts')).compileCommand(options),
};

const EXPLAIN: CommandEntry = {
  name: 'explain',
  description: 'The verdict for connections, and the rules that were considered.',
  options: [
    manifests(true),
    node,
    option('--flow <json>', 'one connection').conflicts('flows'),
    option('--flows <file>', 'connections, one JSON object a line; answers come in the same order'),
    config,
    names,
    strict,
    output('text', 'json'),
  ],
  examples: [
    'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 \\',
    '    --flow \'{"direction":"ingress","src":"10.0.0.7","dst":"192.168.0.11","protocol":"tcp","dstPort":6443}\'',
    'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 \\',
    '    --flow \'{"direction":"ingress","src":"198.51.100.7","protocol":"tcp","dstPort":30080,"traffic":"NodePort"}\'',
    'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml \\',
    '    --flow \'{"direction":"egress","dst":"192.0.2.7","protocol":"tcp","dstPort":443}\'    # names.yaml: www.example.com: [192.0.2.7]',
  ],
  run: async (options) => (await import('./explain.ts')).explainCommand(options),
};

const AGENT: CommandEntry = {
  name: 'agent',
  description: "Make the kernel of this machine hold exactly the Node's rules, and keep it so.",
  options: [
    manifests(false),
    node,
    config,
    stateDir,
    option('--once', 'apply and exit; the rules stay', false),
    strict,
    option('--feature-gates <gates>', 'NodeNetworkPolicy=true|false'),
    logFormat,
    logLevel('debug shows every transaction'),
    option(
      '--controller <url>',
      'https://HOST:PORT of the controller to follow, in the place of --manifests',
    ),
    option(
      '--token-file <file>',
      "with --controller: the agent's service account token, read anew when it is replaced",
    ),
    option(
      '--ca-file <file>',
      "with --controller: who signs the controller's certificate (PEM); default: ConfigMap nodewall-system/nodewall-ca",
    ),
    option(
      '--api-server <url>',
      'with --controller: https://HOST:PORT of the API server, which the agent asks while no controller answers; default: as a pod of the cluster',
    ),
    option('--api-token-file <file>', "with --api-server: the service account's token"),
    option('--api-ca-file <file>', 'with --api-server: who signs its certificate (PEM)'),
    metricsListen,
    option('--metrics-rules', 'a counter for each rule among the metrics', false),
  ],
  examples: [
    'nodewall agent --manifests /etc/nodewall/manifests --node cp-1',
    'nodewall agent --controller https://nodewall.example.com:8443 --node cp-1 \\',
    '    --token-file /var/run/secrets/nodewall/token --ca-file /var/run/secrets/nodewall/ca.crt',
  ],
  run: async (options) => (await import('./agent.ts')).agentCommand(options),
};

const OFF: CommandEntry = {
  name: 'off',
  description:
    'Take all rules of nodewall off this node, and keep them off until `nodewall on`, through restarts. Ends when they are gone.',
  options: [
    option('--reason <text>', 'why: for the log, the status of policies and an Event'),
    config,
    stateDir,
    output('text', 'json'),
  ],
  examples: [
    "nodewall off --reason 'locked out by policy deny-all'",
    'kubectl -n nodewall-system exec POD -- nodewall off',
  ],
  run: async (options) => (await import('./off.ts')).off(options),
};

const ON: CommandEntry = {
  name: 'on',
  description: 'Take `nodewall off` back: the agent of this node enforces its policies again.',
  options: [config, stateDir, output('text', 'json')],
  examples: ['nodewall on'],
  run: async (options) => (await import('./off.ts')).on(options),
};

const CLEANUP: CommandEntry = {
  name: 'cleanup',
  description: 'Remove everything nodewall put into the kernel, by nftables or iptables; nothing else.',
  options: [config, stateDir, output('text', 'json')],
  examples: ['nodewall cleanup'],
  run: async (options) => (await import('./cleanup.ts')).cleanup(options),
};

const INTERFACES: CommandEntry = {
  name: 'interfaces',
  description: 'Show the interfaces of this network namespace, the link group of each, and why.',
  options: [config, stateDir, output('table', 'json')],
  examples: ['nodewall interfaces'],
  run: async (options) => (await import('./interfaces.ts')).interfaces(options),
};

const RULES: CommandEntry = {
  name: 'rules',
  description: 'The rules in force on this Node, in evaluation order, with what each counted.',
  options: [stateDir, config, option('--policy <name>', 'of this policy alone'), output('table', 'json')],
  examples: ['nodewall rules', 'nodewall rules --policy protect-api -o json'],
  run: async (options) => (await import('./rules.ts')).rulesCommand(options),
};

const NAMES: CommandEntry = {
  name: 'names',
  description: 'What the fqdn peers stand for: names and addresses, as the agent last saved them.',
  options: [stateDir, config, output('table', 'json')],
  examples: ['nodewall names'],
  run: async (options) => (await import('./names-command.ts')).namesCommand(options),
};

const LOG: CommandEntry = {
  name: 'log',
  description:
    'The record of rules with enableLogging and of Audit policies: who tried to connect, and what came of it.',
  argument: [
    '[file...]',
    "records, oldest first; - is standard input; default: where the agent's configuration puts them",
  ],
  options: [
    option('-f, --follow', 'go on with what comes, over rotations', false),
    stateDir,
    config,
    option('--policy <name>', 'of this policy'),
    option('--rule <name>', 'of rules of this name'),
    option('--tier <name>', 'of policies in this tier'),
    option('--verdict <verdict>', 'Allow, Drop, Reject or Pass'),
    option('--audit', 'only where nothing was enforced'),
    option('--deciding', 'without what an earlier Audit rule of the same policy would have decided'),
    option('--direction <direction>', 'ingress or egress').choices(['ingress', 'egress']),
    option('--src <cidr>', 'from this address or CIDR'),
    option('--dst <cidr>', 'to this address or CIDR'),
    option('--port <number>', 'to this destination port'),
    option('--protocol <protocol>', 'tcp, udp, sctp, icmp, icmpv6, igmp or a number'),
    option('--interface <name>', 'by this interface, or one of this link group'),
    option('--label <label>', 'with this logLabel'),
    option('--since <time>', 'not before: 30s, 10m, 2h, 7d ago, or a time (ISO 8601)'),
    option('-n, --lines <number>', 'the last ones alone (with --follow: 10 before it goes on)'),
    output('text', 'json'),
  ],
  examples: [
    'nodewall log --follow --verdict Drop',
    'nodewall log --audit --policy protect-api --since 24h -o json',
    'journalctl -u nodewall -o cat | nodewall log - --port 22     # where log.file is stdout',
  ],
  run: async (files, options) => (await import('./records.ts')).recordsCommand(files, options),
};

const CONTROLLER: CommandEntry = {
  name: 'controller',
  description:
    'The controller of a cluster: what the Kubernetes API holds, compiled and told to the agent of each node.',
  options: [
    option('--kubeconfig <file>', 'the API server, and who we are; default: as a pod of the cluster'),
    option('--listen <host:port>', 'serve agents and kubectl (HTTPS)', ':8443'),
    option('--webhook-listen <host:port>', 'serve admission webhooks (HTTPS): /mutate and /validate'),
    metricsListen,
    option(
      '--tls-cert-file <file>',
      'serve with this certificate (PEM), read anew when it changes; default: of its own CA',
    ),
    option('--tls-key-file <file>', 'its key (PEM)'),
    option(
      '--tls-ca-file <file>',
      'who signs it (PEM), for the APIService; default: the public authorities, or what somebody else writes there',
    ),
    option(
      '--pod-name <name>',
      'the pod that it runs in: told to stop, it serves on until agents know another one',
    ),
    option(
      '--feature-gates <gates>',
      'NodeNetworkPolicy=true|false; default: as ConfigMap nodewall-system/nodewall-config says, or said last',
    ),
    option(
      '--token-audiences <names>',
      "audiences of agents' tokens, comma-separated; empty: the API server's own",
      'nodewall-controller',
    ),
    option(
      '--relist-period <seconds>',
      'the least time between two looks whether the watches have missed something; twice that the most',
    )
      .argParser(relistPeriod)
      .default(900),
    config,
    logFormat,
    logLevel('debug shows every stream'),
  ],
  examples: [
    'nodewall controller --kubeconfig ~/.kube/config --listen 127.0.0.1:8443 --metrics-listen 127.0.0.1:8080',
  ],
  run: async (options) => (await import('./controller.ts')).controllerCommand(options),
};

const DUMP: CommandEntry = {
  name: 'dump',
  description: 'Print the value of one stage: objects, wire, state or transaction.',
  options: [],
  examples: ['nodewall dump wire --manifests /etc/nodewall/manifests --node cp-1'],
  // All but the transaction always print JSON; scripts may ask for it explicitly.
  commands: [
    dumpOf('objects', 'stage 1: the objects, validated and narrowed (JSON)', [output('json')]),
    dumpOf('wire', 'stage 3: what the node is told (JSON lines)', [node, output('json')]),
    dumpOf('state', 'stage 4: everything the node must enforce (JSON)', [node, output('json')]),
    dumpOf('transaction', 'stage 6: what would bring this kernel to it, part by part', [
      node,
      stateDir,
      option('--from-empty', 'as if the kernel held nothing; needs no permissions', false),
    ]),
  ],
};

function dumpOf(
  name: Parameters<typeof import('./dump.ts').dump>[0],
  description: string,
  options: readonly Option[],
): CommandEntry {
  return {
    name,
    description,
    options: [manifests(true), config, ...options],
    examples: [
      `nodewall dump ${name} --manifests /etc/nodewall/manifests${options.includes(node) ? ' --node cp-1' : ''}`,
    ],
    run: async (given) => (await import('./dump.ts')).dump(name, given),
  };
}

/** In the order of the help. */
export const COMMANDS: readonly CommandEntry[] = [
  VALIDATE,
  COMPILE,
  EXPLAIN,
  AGENT,
  OFF,
  ON,
  CLEANUP,
  INTERFACES,
  RULES,
  LOG,
  NAMES,
  DUMP,
  CONTROLLER,
];
