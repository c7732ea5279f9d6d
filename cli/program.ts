import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { DATAPLANES } from '../agent/dataplane/dataplanes.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { VERSION } from '../lib/process/version.ts';
import { errorText } from './output.ts';

/**
 * The `nodewall` command: takes arguments, returns the exit status. Each action imports its code
 * when it runs, so that `--help` stays quick.
 */
export async function run(argv: readonly string[]): Promise<ExitStatus> {
  let status: ExitStatus = EXIT.done;
  const program = build((result) => {
    status = result;
  });
  try {
    await program.parseAsync([...argv]);
    return status;
  } catch (error) {
    // commander has printed its message; its help and version are not errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    if (error instanceof CommandError) {
      process.stderr.write(errorText(error.message));
      return error.status;
    }
    throw error;
  }
}

type Done = (status: ExitStatus) => void;

function build(done: Done): Command {
  const program = new Command('nodewall')
    .description(
      'A host firewall for Kubernetes nodes: one nftables rule per policy rule, or one iptables rule per family.',
    )
    .version(VERSION)
    .showHelpAfterError("(try 'nodewall --help')")
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      example(
        'nodewall explain --manifests deploy/examples/flagship --node cp-1 \\\n      --flow \'{"direction":"ingress","src":"10.0.0.7","protocol":"tcp","dstPort":6443}\'',
      ),
    );
  addValidate(program, done);
  addCompile(program, done);
  addExplain(program, done);
  addDiff(program, done);
  addAgent(program, done);
  addOff(program, done);
  addOn(program, done);
  addFlush(program, done);
  addCleanup(program, done);
  addInterfaces(program, done);
  addRules(program, done);
  addLog(program, done);
  addNames(program, done);
  addDump(program, done);
  addController(program, done);
  return program;
}

const example = (...lines: readonly string[]): string =>
  `\nExample:\n${lines.map((line) => `  ${line}`).join('\n')}\n`;
const collect = (value: string, previous: readonly string[] = []): string[] => [...previous, value];
const manifests = (required: boolean): Option =>
  new Option('--manifests <dir>', 'directory (recursive) or file of manifests; may be repeated')
    .argParser(collect)
    .makeOptionMandatory(required);
const node = (): Option => new Option('--node <name>', 'name of the Node').makeOptionMandatory();
const config = (): Option => new Option('--config <file>', "the agent's configuration (YAML)");
const output = (...formats: readonly string[]): Option =>
  new Option('-o, --output <format>', 'format of the result').choices(formats).default(formats[0]);
const strict = (): Option =>
  new Option('--strict', 'exit with 1 if a policy is invalid and left out').default(false);
const names = (): Option => new Option('--names <file>', 'addresses of fqdn peers (YAML, name: [addresses])');
const stateDir = (): Option =>
  new Option('--state-dir <dir>', 'keeps the state across restarts').default('/var/lib/nodewall');
const logFormat = (): Option =>
  new Option('--log-format <format>', 'default: text on a terminal, else json').choices(['json', 'text']);
const logLevel = (shown: string): Option =>
  new Option('--log-level <level>', `debug shows every ${shown}`)
    .choices(['error', 'warn', 'info', 'debug'])
    .default('info');

function addValidate(program: Command, done: Done): void {
  program
    .command('validate')
    .description('Print every problem in every manifest; exits with 1 if there is any.')
    .addOption(manifests(true))
    .addOption(config())
    .addOption(output('text', 'json'))
    .addHelpText('after', example('nodewall validate --manifests /etc/nodewall/manifests'))
    .action(async (options) => done(await (await import('./validate.ts')).validate(options)));
}

function addCompile(program: Command, done: Done): void {
  program
    .command('compile')
    .description(
      "Print a Node's rules in evaluation order; -o nft and -o iptables print the text that the agent would load.",
    )
    .addOption(manifests(true))
    .addOption(node())
    .addOption(config())
    .addOption(names())
    .addOption(strict())
    .option(
      '--stats',
      'print the cost of the rule index in nftables: rules tried per packet, maps, elements, memory',
      false,
    )
    .addOption(output('table', 'json', ...Object.values(DATAPLANES).map((kind) => kind.output)))
    .addHelpText(
      'after',
      example(
        'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o nft',
        'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml    # www.example.com: [192.0.2.7]',
        'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o iptables    # ipset restore, then iptables-restore of each family',
        'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --stats',
      ),
    )
    .action(async (options) => done(await (await import('./compile.ts')).compileCommand(options)));
}

function addExplain(program: Command, done: Done): void {
  program
    .command('explain')
    .description('Print the verdict for connections, and the rules that were evaluated.')
    .addOption(manifests(true))
    .addOption(node())
    .addOption(new Option('--flow <json>', 'one connection').conflicts('flows'))
    .option('--flows <file>', 'connections, one JSON object a line; the answers have the same order')
    .addOption(config())
    .addOption(names())
    .addOption(strict())
    .addOption(output('text', 'json'))
    .addHelpText(
      'after',
      example(
        'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 \\',
        '    --flow \'{"direction":"ingress","src":"10.0.0.7","dst":"192.168.0.11","protocol":"tcp","dstPort":6443}\'',
        'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 \\',
        '    --flow \'{"direction":"ingress","src":"198.51.100.7","protocol":"tcp","dstPort":30080,"traffic":"NodePort"}\'',
        'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml \\',
        '    --flow \'{"direction":"egress","dst":"192.0.2.7","protocol":"tcp","dstPort":443}\'    # names.yaml: www.example.com: [192.0.2.7]',
      ),
    )
    .action(async (options) => done(await (await import('./explain.ts')).explainCommand(options)));
}

function addDiff(program: Command, done: Done): void {
  program
    .command('diff')
    .description(
      'Print the connections whose verdict differs between two sets of manifests, exactly. Exits with 1 if any does.',
    )
    .argument('[paths...]', 'OLD and NEW: directories (recursive) or files of manifests')
    .option('--against-cluster', 'compare NEW with the state in force (not built yet)', false)
    .option('--node <name>', 'compare this Node alone')
    .addOption(config())
    .addOption(names())
    .addOption(
      new Option('--fail-on <change>', 'exit with 1 only if connections are newly denied, or newly allowed')
        .choices(['any', 'denied', 'allowed'])
        .default('any'),
    )
    .addOption(output('text', 'json', 'markdown'))
    .addHelpText(
      'after',
      example(
        'nodewall diff /etc/nodewall/manifests ./changed',
        'nodewall diff old new --fail-on denied -o markdown    # in a pipeline: fails if anything is closed',
      ),
    )
    .action(async (paths, options) => done(await (await import('./diff.ts')).diffCommand(paths, options)));
}

function addAgent(program: Command, done: Done): void {
  program
    .command('agent')
    .description("Enforce the Node's rules in the kernel of this machine, and follow every change of them.")
    .addOption(manifests(false))
    .addOption(node())
    .addOption(config())
    .addOption(stateDir())
    .option('--once', 'apply and exit; the rules stay', false)
    .addOption(strict())
    .option('--feature-gates <gates>', 'NodeNetworkPolicy=true|false')
    .addOption(logFormat())
    .addOption(logLevel('transaction'))
    .option('--controller <url>', 'https://HOST:PORT of the controller to follow, instead of --manifests')
    .option(
      '--token-file <file>',
      "with --controller: the agent's service account token; read again when the file changes",
    )
    .option(
      '--ca-file <file>',
      "with --controller: the CA of the controller's certificate (PEM); default: ConfigMap nodewall-system/nodewall-ca",
    )
    .option(
      '--api-server <url>',
      'with --controller: https://HOST:PORT of the API server, which the agent asks while no controller answers; default: that of the pod',
    )
    .option('--api-token-file <file>', "with --api-server: the service account's token")
    .option('--api-ca-file <file>', 'with --api-server: the CA of its certificate (PEM)')
    .option('--metrics-listen <host:port>', 'serve /healthz, /readyz and /metrics (Prometheus)')
    .option('--metrics-rules', 'add a counter for each rule to the metrics', false)
    .addHelpText(
      'after',
      example(
        'nodewall agent --manifests /etc/nodewall/manifests --node cp-1',
        'nodewall agent --controller https://nodewall.example.com:8443 --node cp-1 \\',
        '    --token-file /var/run/secrets/nodewall/token --ca-file /var/run/secrets/nodewall/ca.crt',
      ),
    )
    .action(async (options) => done(await (await import('./agent.ts')).agentCommand(options)));
}

function addOff(program: Command, done: Done): void {
  program
    .command('off')
    .description(
      'Remove all rules of nodewall from this node until `nodewall on`, through restarts. Returns when they are removed.',
    )
    .option('--reason <text>', 'the reason, for the log, the status of policies and an Event')
    .addOption(config())
    .addOption(stateDir())
    .addOption(output('text', 'json'))
    .addHelpText(
      'after',
      example(
        "nodewall off --reason 'locked out by policy deny-all'",
        'kubectl -n nodewall-system exec POD -- nodewall off',
      ),
    )
    .action(async (options) => done(await (await import('./off.ts')).off(options)));
}

function addOn(program: Command, done: Done): void {
  program
    .command('on')
    .description('End `nodewall off`: the agent of this node enforces its policies again.')
    .addOption(config())
    .addOption(stateDir())
    .addOption(output('text', 'json'))
    .addHelpText('after', example('nodewall on'))
    .action(async (options) => done(await (await import('./off.ts')).on(options)));
}

function addFlush(program: Command, done: Done): void {
  program
    .command('flush')
    .description(
      'End the established connections on this node that the rules in force deny, of any policy. The agent does it, and records each.',
    )
    .option('--dry-run', 'only list them', false)
    .option('--node <name>', 'refuse unless the agent here is that of this Node')
    .addOption(stateDir())
    .addOption(config())
    .addOption(output('text', 'json'))
    .addHelpText(
      'after',
      example(
        'nodewall flush --dry-run',
        'nodewall flush',
        'kubectl -n nodewall-system exec POD -- nodewall flush --dry-run -o json',
      ),
    )
    .action(async (options) => done(await (await import('./flush.ts')).flush(options)));
}

function addCleanup(program: Command, done: Done): void {
  program
    .command('cleanup')
    .description('Remove everything of nodewall from the kernel, in nftables and iptables.')
    .addOption(config())
    .addOption(stateDir())
    .addOption(output('text', 'json'))
    .addHelpText('after', example('nodewall cleanup'))
    .action(async (options) => done(await (await import('./cleanup.ts')).cleanup(options)));
}

function addInterfaces(program: Command, done: Done): void {
  program
    .command('interfaces')
    .description('Print the interfaces of this network namespace, their link groups, and why.')
    .addOption(config())
    .addOption(stateDir())
    .addOption(output('table', 'json'))
    .addHelpText('after', example('nodewall interfaces'))
    .action(async (options) => done(await (await import('./interfaces.ts')).interfaces(options)));
}

function addRules(program: Command, done: Done): void {
  program
    .command('rules')
    .description('Print the rules in force on this Node in evaluation order, with their counters.')
    .addOption(stateDir())
    .addOption(config())
    .option('--policy <name>', 'only rules of this policy')
    .addOption(output('table', 'json'))
    .addHelpText('after', example('nodewall rules', 'nodewall rules --policy protect-api -o json'))
    .action(async (options) => done(await (await import('./rules.ts')).rulesCommand(options)));
}

function addNames(program: Command, done: Done): void {
  program
    .command('names')
    .description('Print the names and addresses of fqdn peers, as the agent last saved them.')
    .addOption(stateDir())
    .addOption(config())
    .addOption(output('table', 'json'))
    .addHelpText('after', example('nodewall names'))
    .action(async (options) => done(await (await import('./names-command.ts')).namesCommand(options)));
}

function addLog(program: Command, done: Done): void {
  program
    .command('log')
    .description(
      'Print the flow log: new connections that rules with enableLogging or Audit policies recorded, with their verdicts.',
    )
    .argument(
      '[file...]',
      "files of records, oldest first; - is standard input; default: the file of the agent's configuration",
    )
    .option('-f, --follow', 'go on with new records, across rotations', false)
    .addOption(stateDir())
    .addOption(config())
    .option('--policy <name>', 'only records of this policy')
    .option('--rule <name>', 'only records of rules with this name')
    .option('--tier <name>', 'only records of policies in this tier')
    .option('--verdict <verdict>', 'only records with this verdict: Allow, Drop, Reject or Pass')
    .option('--audit', 'only records of Audit policies, which enforce nothing')
    .option('--deciding', 'leave out matches after the Audit rule that would have decided')
    .addOption(new Option('--direction <direction>', 'only this direction').choices(['ingress', 'egress']))
    .option('--src <cidr>', 'only records with this source address or CIDR')
    .option('--dst <cidr>', 'only records with this destination address or CIDR')
    .option('--port <number>', 'only records with this destination port')
    .option('--protocol <protocol>', 'only this protocol: tcp, udp, sctp, icmp, icmpv6, igmp or a number')
    .option('--interface <name>', 'only records of this interface, or of an interface in this link group')
    .option('--label <label>', 'only records with this logLabel')
    .option('--since <time>', 'only records since then: 30s, 10m, 2h or 7d ago, or a time (ISO 8601)')
    .option('-n, --lines <number>', 'only the last records (default with --follow: 10)')
    .addOption(output('text', 'json'))
    .addHelpText(
      'after',
      example(
        'nodewall log --follow --verdict Drop',
        'nodewall log --audit --policy protect-api --since 24h -o json',
        'journalctl -u nodewall -o cat | nodewall log - --port 22     # where log.file is stdout',
      ),
    )
    .action(async (files, options) =>
      done(await (await import('./records.ts')).recordsCommand(files, options)),
    );
}

function addDump(program: Command, done: Done): void {
  const dump = program
    .command('dump')
    .description('Print the value of one stage: objects, wire, state or transaction.')
    .addHelpText('after', example('nodewall dump wire --manifests /etc/nodewall/manifests --node cp-1'));
  const stages = [
    ['objects', 'stage 1: the objects, validated and narrowed (JSON)'],
    ['wire', 'stage 3: the messages sent to the node (JSON lines)'],
    ['state', 'stage 4: everything the node must enforce (JSON)'],
    ['transaction', 'stage 6: the transaction from the current state of this kernel, part by part'],
  ] as const;
  for (const [stage, description] of stages) {
    const command = dump
      .command(stage)
      .description(description)
      .addOption(manifests(true))
      .addOption(config());
    if (stage !== 'objects') command.addOption(node());
    // These always print JSON; scripts may ask for it explicitly.
    if (stage !== 'transaction') command.addOption(output('json'));
    else {
      command.addOption(stateDir());
      command.option('--from-empty', 'assume an empty kernel; needs no permissions', false);
    }
    const which = stage === 'objects' ? '' : ' --node cp-1';
    command
      .addHelpText('after', example(`nodewall dump ${stage} --manifests /etc/nodewall/manifests${which}`))
      .action(async (options) => done(await (await import('./dump.ts')).dump(stage, options)));
  }
}

function relistPeriod(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds, 1 or more');
  return Number(text);
}

function addController(program: Command, done: Done): void {
  program
    .command('controller')
    .description(
      'Run the controller of a cluster: it compiles the policies of the Kubernetes API and sends each agent its rules.',
    )
    .option('--kubeconfig <file>', 'API server and credentials; default: those of the pod')
    .option('--listen <host:port>', 'serve agents and kubectl (HTTPS)', ':8443')
    .option('--webhook-listen <host:port>', 'serve admission webhooks (HTTPS): /mutate and /validate')
    .option(
      '--metrics-listen <host:port>',
      'serve /healthz and /readyz, and /metrics (Prometheus) to this machine alone; --listen serves /metrics to others',
    )
    .option(
      '--tls-cert-file <file>',
      'serving certificate (PEM); read again when the file changes; default: one of its own CA',
    )
    .option('--tls-key-file <file>', 'key of the serving certificate (PEM)')
    .option(
      '--tls-ca-file <file>',
      'CA of the serving certificate (PEM), for the APIService; default: the public authorities, or the CA that a third party writes there',
    )
    .option(
      '--peer <host:port...>',
      'the other controllers, where they do not run in pods: each must know what agents report to the others',
    )
    .option(
      '--pod-name <name>',
      'the pod that it runs in; after SIGTERM it serves until agents know another controller',
    )
    .option(
      '--feature-gates <gates>',
      'NodeNetworkPolicy=true|false; default: the value of ConfigMap nodewall-system/nodewall-config, or its last value',
    )
    .option(
      '--token-audiences <names>',
      "audiences of agents' tokens, comma-separated; empty: the audience of the API server",
      'nodewall-controller',
    )
    .option(
      '--relist-period <seconds>',
      'minimum time between two relists, which find changes that a watch missed; the maximum is twice that',
      relistPeriod,
      900,
    )
    .addOption(config())
    .addOption(logFormat())
    .addOption(logLevel('stream'))
    .addHelpText(
      'after',
      example(
        'nodewall controller --kubeconfig ~/.kube/config --listen 127.0.0.1:8443 --metrics-listen 127.0.0.1:8080',
      ),
    )
    .action(async (options) => done(await (await import('./controller.ts')).controllerCommand(options)));
}
