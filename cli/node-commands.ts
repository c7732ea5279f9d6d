import { Option } from 'commander';
import {
  collect,
  config,
  type Done,
  kubeconfig,
  type OwnCommand,
  ofNode,
  outputOption,
  stateDir,
  watchOption,
} from './command-options.ts';
import { filterWords, kindWords } from './flow-words.ts';

/** Commands for the node on which they run. */
export function addNodeCommands(program: OwnCommand, done: Done): void {
  addOff(program, done);
  addOn(program, done);
  addFlush(program, done);
  addConfirm(program, done);
  addRetry(program, done);
  addCleanup(program, done);
  addInterfaces(program, done);
  addRules(program, done);
  addLog(program, done);
  addFlows(program, done);
  addImpact(program, done);
  addNames(program, done);
  addBootUnit(program, done);
}

function addOff(program: OwnCommand, done: Done): void {
  program
    .command('off')
    .description(
      'Remove all rules of nodewall from this node until `nodewall on`, through restarts. Returns when they are removed.',
    )
    .option('--reason <text>', 'the reason, for the log, the status of policies and an Event')
    .addOptions(config(), stateDir(), outputOption('text', 'json'))
    .addExamples(
      "nodewall off --reason 'locked out by policy deny-all'",
      'kubectl -n nodewall-system exec POD -- nodewall off',
    )
    .action(async (options) => done(await (await import('./off.ts')).off(options)));
}

function addOn(program: OwnCommand, done: Done): void {
  program
    .command('on')
    .description('End `nodewall off`: the agent of this node enforces its policies again.')
    .addOptions(config(), stateDir())
    .option('--renamed', 'this machine, a Node without --node, has its new host name for good')
    .addOption(outputOption('text', 'json'))
    .addExamples('nodewall on')
    .action(async (options) => done(await (await import('./off.ts')).on(options)));
}

function addFlush(program: OwnCommand, done: Done): void {
  program
    .command('flush')
    .description(
      'End the established connections on this node that the rules in force deny, of any policy, or those of them that the words name. The agent does it, and records each.',
    )
    .option('--dry-run', 'only list them', false)
    .addOptions(...filterWords())
    .option(
      '--node <name>',
      'end them on this node only; where no agent runs, the message has the line for it',
    )
    .addOptions(stateDir(), config(), outputOption('text', 'json'))
    .addExamples(
      'nodewall flush --dry-run',
      'nodewall flush',
      'nodewall flush --from 198.51.100.7 --to-port 22    # of those alone',
      'kubectl -n nodewall-system exec POD -- nodewall flush --dry-run -o json',
    )
    .action(async (options) => done(await (await import('./flush.ts')).flush(options)));
}

function addConfirm(program: OwnCommand, done: Done): void {
  program
    .command('confirm')
    .description(
      'Confirm the rules that the agent of this node tries (guarded apply): they stay, and survive. Where no agent runs, but there is a kubeconfig: print the nodes of the cluster that try rules, and what to run on each.',
    )
    .addOptions(stateDir(), kubeconfig(), config(), outputOption('text', 'json'))
    .addExamples('nodewall confirm', 'kubectl -n nodewall-system exec POD -- nodewall confirm')
    .action(async (options) => done(await (await import('./guard.ts')).confirmCommand(options)));
}

function addRetry(program: OwnCommand, done: Done): void {
  program
    .command('retry')
    .description(
      'Apply and try again the policies that were rolled back on this node (guarded apply). Where no agent runs, but there is a kubeconfig: those that any node of the cluster has rolled back, by an annotation of the policy.',
    )
    .argument('[policy]', 'only this policy')
    .addOptions(stateDir(), kubeconfig(), config(), outputOption('text', 'json'))
    .addExamples('nodewall retry', 'nodewall retry deny-all')
    .action(async (policy, options) =>
      done(await (await import('./guard.ts')).retryCommand(policy, options)),
    );
}

function addCleanup(program: OwnCommand, done: Done): void {
  program
    .command('cleanup')
    .description('Remove everything of nodewall from the kernel, in nftables and iptables.')
    .addOptions(config(), stateDir(), outputOption('text', 'json'))
    .addExamples('nodewall cleanup')
    .action(async (options) => done(await (await import('./off.ts')).cleanup(options)));
}

function addInterfaces(program: OwnCommand, done: Done): void {
  program
    .command('interfaces')
    .description('Print the interfaces of this network namespace, their link groups, and why.')
    .addOptions(config(), stateDir(), ofNode(), kubeconfig(), outputOption('table', 'json'))
    .addExamples('nodewall interfaces', 'nodewall interfaces --node worker-1')
    .action(async (options) => done(await (await import('./node-data.ts')).interfaces(options)));
}

function addRules(program: OwnCommand, done: Done): void {
  program
    .command('rules')
    .description(
      'Print the rules in force on this machine or on a node of a cluster, in evaluation order, with their counters.',
    )
    .addOptions(stateDir(), config(), ofNode(), kubeconfig())
    .option('--policy <name>', 'only rules of this policy')
    .option(
      '--unused [time]',
      'only rules that no packet has matched since they are counted, or since then: 30d ago, or a time (ISO 8601)',
      false,
    )
    .option('--all-nodes', 'with --unused: that no packet has matched on any node of a cluster', false)
    .addOption(outputOption('table', 'json'))
    .addExamples(
      'nodewall rules',
      'nodewall rules --policy protect-api -o json',
      'nodewall rules --node worker-1 --unused',
      'nodewall rules --all-nodes --unused 30d',
    )
    .action(async (options) => done(await (await import('./rules.ts')).rulesCommand(options)));
}

function addLog(program: OwnCommand, done: Done): void {
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
    .addOption(ofNode())
    .option('--all-nodes', 'those of all nodes of a cluster, in the order of their times', false)
    .addOptions(kubeconfig(), stateDir(), config())
    .option('--policy <name>', 'only records of this policy')
    .option('--rule <name>', 'only records of rules with this name')
    .option('--tier <name>', 'only records of policies in this tier')
    .option(
      '--verdict <verdict>',
      'only records with this verdict: Allow, Drop, Reject or Pass; an Audit policy has what it would decide',
    )
    .option('--audit', 'only records of Audit policies, which enforce nothing')
    .option('--deciding', 'leave out matches after the Audit rule that would have decided')
    .addOptions(...filterWords())
    .option('--interface <name>', 'only records of this interface, or of an interface in this link group')
    .option('--label <label>', 'only records with this logLabel')
    .option('--since <time>', 'only records since then: 30s, 10m, 2h or 7d ago, or a time (ISO 8601)')
    .option('-n, --lines <number>', 'only the last records (default with --follow: 10)')
    .addOption(outputOption('text', 'json'))
    .addExamples(
      'nodewall log --follow --verdict Drop',
      'nodewall log --all-nodes --follow --policy protect-api',
      'nodewall log --audit --policy protect-api --since 24h -o json',
      'journalctl -u nodewall -o cat | nodewall log - --to-port 22     # where log.file is stdout',
    )
    .action(async (files, options) =>
      done(await (await import('./records.ts')).recordsCommand(files, options)),
    );
}

function addFlows(program: OwnCommand, done: Done): void {
  program
    .command('flows')
    .description(
      'Print the kinds of flows of the last 7 days, last seen first, with what the rules in force decide about them.',
    )
    .addOption(ofNode())
    .option('--all-nodes', 'those of each node of a cluster', false)
    .addOptions(kubeconfig(), stateDir(), config())
    .addOptions(...kindWords())
    .option(
      '--peer <cidr>',
      'only those whose other end is this address or in this CIDR, in either direction',
    )
    .option('--policy <name>', 'only those that a rule of this policy decides')
    .option('--denied', 'only those that were denied, or would be now', false)
    .option('--live', 'only those with connections now', false)
    .option('--since <time>', 'only those seen since then: 30s, 10m, 2h or 7d ago, or a time (ISO 8601)')
    .option('-n, --lines <number>', 'at most so many of a node (default 200, most 1500)')
    .addOptions(watchOption(), outputOption('table', 'json'))
    .addExamples(
      'nodewall flows --ingress --since 24h',
      'nodewall flows --from 198.51.100.7 --to-port 22    # is it known here, and what is decided about it?',
      'nodewall flows --node worker-1 --denied --watch',
      'nodewall flows --all-nodes --ingress --to-port 10250 --live -o json',
    )
    .action(async (options) => done(await (await import('./flows.ts')).flowsCommand(options)));
}

function addImpact(program: OwnCommand, done: Done): void {
  program
    .command('impact')
    .description(
      'Print which of the flows that nodes have seen a change of policies would newly deny or allow. Exits with 1 if there are any.',
    )
    .addOption(
      new Option(
        '-f, --file <path>',
        'file or directory of manifests, as for kubectl apply; - is standard input; may be repeated',
      )
        .argParser(collect)
        .default([]),
    )
    .addOption(
      new Option('--remove <object>', 'KIND/NAME of a policy, group or tier that is deleted; may be repeated')
        .argParser(collect)
        .default([]),
    )
    .addOption(ofNode())
    .option('--all-nodes', 'the flows of all nodes of a cluster, and its policies', false)
    .addOptions(...kindWords(), kubeconfig(), stateDir(), config())
    .addOption(
      new Option('--fail-on <change>', 'exit with 1 only if flows are newly denied, or newly allowed')
        .choices(['any', 'denied', 'allowed'])
        .default('any'),
    )
    .addOption(outputOption('text', 'json'))
    .addExamples(
      'nodewall impact -f changed.yaml    # this machine, whose agent reads manifests',
      'nodewall impact -f policies/ --all-nodes --fail-on denied    # before kubectl apply',
      'nodewall impact --remove ClusterNetworkPolicy/protect-api --node worker-1',
      'nodewall impact -f changed.yaml --ingress --to-port 22    # of these flows alone',
    )
    .action(async (options) => done(await (await import('./impact.ts')).impactCommand(options)));
}

function addNames(program: OwnCommand, done: Done): void {
  program
    .command('names')
    .description('Print the names and addresses of fqdn peers, as the agent last saved them.')
    .addOptions(stateDir(), config(), ofNode(), kubeconfig(), outputOption('table', 'json'))
    .addExamples('nodewall names', 'nodewall names --node worker-1')
    .action(async (options) => done(await (await import('./node-data.ts')).namesCommand(options)));
}

function addBootUnit(program: OwnCommand, done: Done): void {
  program
    .command('boot-unit')
    .description(
      'Print, install or remove the units of systemd that load the last rules in force at boot, before the network is up and without an agent.',
    )
    .option('--install <directory>', 'write them there and enable them, as systemctl enable does')
    .option('--remove <directory>', 'remove them from there')
    .addOptions(config(), stateDir())
    .addExamples('nodewall boot-unit --install /etc/systemd/system', 'systemctl status nodewall-boot')
    .action(async (options) => done(await (await import('./boot-unit.ts')).bootUnit(options)));
}
