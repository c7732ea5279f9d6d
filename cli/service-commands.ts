import { InvalidArgumentError } from 'commander';
import { CONTROLLER_PORT } from '../apis/control-plane.ts';
import {
  config,
  type Done,
  logFormat,
  logLevel,
  manifests,
  node,
  type OwnCommand,
  stateDir,
  strict,
} from './command-options.ts';

/** Commands that run until they are stopped. */
export function addServiceCommands(program: OwnCommand, done: Done): void {
  addAgent(program, done);
  addController(program, done);
  addRelay(program, done);
}

function addAgent(program: OwnCommand, done: Done): void {
  program
    .command('agent')
    .description("Enforce the Node's rules in the kernel of this machine, and follow every change of them.")
    .addOptions(manifests(false), node(), config(), stateDir())
    .option('--once', 'apply and exit; the rules stay', false)
    .addOption(strict())
    .option(
      '--feature-gates <gates>',
      'NodeNetworkPolicy=true|false, and EgressGateway=true|false (default: false; in a cluster what its controller says)',
    )
    .addOptions(logFormat(), logLevel('transaction'))
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
    .option('--health-socket <path>', 'serve the same at a Unix socket, for probes of a kubelet')
    .option('--metrics-rules', 'add a counter for each rule to the metrics', false)
    .addExamples(
      'nodewall agent --manifests /etc/nodewall/manifests --node cp-1',
      'nodewall agent --controller https://nodewall.example.com:8443 --node cp-1 \\',
      '    --token-file /var/run/secrets/nodewall/token --ca-file /var/run/secrets/nodewall/ca.crt',
    )
    .action(async (options) => done(await (await import('./agent.ts')).agentCommand(options)));
}

function addController(program: OwnCommand, done: Done): void {
  program
    .command('controller')
    .description(
      'Run the controller of a cluster: it compiles the policies of the Kubernetes API and sends each agent its rules.',
    )
    .option('--kubeconfig <file>', 'API server and credentials; default: those of the pod')
    .option('--listen <host:port>', 'serve agents and kubectl (HTTPS)', `:${CONTROLLER_PORT}`)
    .option(
      '--webhook-listen <host:port>',
      'serve admission webhooks (HTTPS): /mutate and /validate; may be that of --listen',
    )
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
    .option('--no-aggregated-api', 'register no aggregated API; commands ask a pod of the controllers')
    .option('--console-files <folder>', "the console's built pages; default: those of this program")
    .option(
      '--feature-gates <gates>',
      'NodeNetworkPolicy=true|false and EgressGateway=true|false; default: the values of ConfigMap nodewall-system/nodewall-config, or its last ones',
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
    .addOptions(config(), logFormat(), logLevel('stream'))
    .addExamples(
      'nodewall controller --kubeconfig ~/.kube/config --listen 127.0.0.1:8443 --metrics-listen 127.0.0.1:8080',
    )
    .action(async (options) => done(await (await import('./controller.ts')).controllerCommand(options)));
}

function addRelay(program: OwnCommand, done: Done): void {
  program
    .command('relay')
    .description(
      "Answer requests for the controllers' documents, in their pod: other commands run it by kubectl exec where the aggregated API is off.",
    )
    .option('--kubeconfig <file>', 'API server and credentials; default: those of the pod')
    .option('--controller <url>', 'the controllers', 'https://nodewall-controller.nodewall-system.svc')
    .option('--token-file <file>', 'token for the controllers', '/var/run/nodewall/token/token')
    .action(async (options) => done(await (await import('./relay.ts')).relayCommand(options)));
}

function relistPeriod(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds, 1 or more');
  return Number(text);
}
