import { randomUUID } from 'node:crypto';
import type { Server } from 'node:https';
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import type { ListenAddress } from '../../lib/process/listen-address.ts';
import { serveMetrics } from '../../lib/process/metrics-server.ts';
import { untilStopped } from '../../lib/process/stopped.ts';
import { compiler } from '../compile/compile.ts';
import { Registration } from '../kubeapi/apiservice/registration.ts';
import { followCaBundles } from '../kubeapi/certificates/ca-bundle.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import { followConfigMap } from '../kubeapi/configmap/configmap.ts';
import { type FrontProxySetting, frontProxySetting } from '../kubeapi/configmap/front-proxy.ts';
import { Gate } from '../kubeapi/configmap/gate.ts';
import { kubeApi } from '../kubeapi/kube-api.ts';
import { election } from '../kubeapi/lease/election.ts';
import { leaseStore } from '../kubeapi/lease/lease.ts';
import { reviewAccess, reviewToken } from '../kubeapi/reviews.ts';
import { accessAuthoriser, firstOf, frontProxyAuthenticator, tokenAuthenticator } from '../publish/auth.ts';
import { apiServerEndpoints, apiServerMemory } from '../publish/endpoints.ts';
import { createHub } from '../publish/hub.ts';
import { type ControlPlaneServer, controlPlaneServer } from '../publish/server.ts';
import { standbyAnswer } from '../publish/standby.ts';
import { handover } from '../replicas/handover.ts';
import { Replicas } from '../replicas/replicas.ts';
import { failureEvents } from '../status/failure-events.ts';
import { statusKeeper } from '../status/keeper.ts';
import { policyVersions } from '../status/policy-versions.ts';
import { statusWriter } from '../status/writer.ts';
import { clusterSource } from '../watch/cluster/cluster-source.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { apiTransport } from '../watch/cluster/transport.ts';
import { WATCH_TIMES } from '../watch/cluster/watch-times.ts';
import type { Snapshot } from '../watch/source.ts';
import { changes } from '../webhook/changes.ts';
import { latestWorld } from '../webhook/latest.ts';
import { webhookServer } from '../webhook/server.ts';
import { certificateSource } from './controller-certificates.ts';
import { controllerLog, messageOf } from './controller-log.ts';
import { controllerMetrics } from './controller-metrics.ts';
import type { ControllerParts } from './controller-parts.ts';
import { ReportedAddresses } from './reported-addresses.ts';

const { namespace: NAMESPACE, name: NAME } = CONTROLLER_ACCOUNT;
/** Milliseconds from one look to the next whether it may end; sooner when something changes. */
const HANDOVER_LOOK = 250;

/**
 * The controller: stages 1 to 3, and what the cluster is told of it. Every replica watches, compiles, answers webhooks and is read; the one that holds the Lease
 * serves agents and writes statuses. One that loses it stops both and stays warm: what it knows comes from the API server, not from having led, so it is worth no
 * less than what a new process would have to list first.
 */
export async function runController(parts: ControllerParts): Promise<ExitStatus> {
  const { options, config, kubeConfig, log } = parts;
  const identity = `${hostname()}_${randomUUID()}`;
  const api = kubeApi(kubeConfig);
  const transport = apiTransport(kubeConfig);
  const says = controllerLog(log);
  const ownsAuthority = options.tlsCertFile === undefined;
  const stopping = new AbortController();
  const fatal = Promise.withResolvers<never>();
  // Only the race at the end looks at it.
  fatal.promise.catch(() => {});

  let caBundle: string | null | undefined =
    options.tlsCertFile !== undefined && options.tlsCaFile === undefined ? null : undefined;
  let frontProxy: FrontProxySetting | null = null;
  let certificate: CertificateAndKey | null = null;
  let snapshot: Snapshot | null = null;
  let server = null as ControlPlaneServer | null;
  /** Agents are served, and statuses written. */
  let isLeading = false;
  /** Told to stop. */
  let isEnding = false;
  let changing: Promise<void> = Promise.resolve();

  const hub = createHub({ gate: parts.gate ?? false });
  const metrics = controllerMetrics({
    isLeading: () => elected.isLeader(),
    watches: () => [...source.metrics(), ...reflectors.map((one) => one.metrics())],
    server: () => server?.stats() ?? null,
    statusesWaiting: () => writer.waiting(),
  });

  // Status of policies.
  const writer = statusWriter(api.request, systemClock, {
    written: () => metrics.statusWritten(),
    failed(policy, error, retryIn) {
      metrics.statusFailed();
      log.warn('a status could not be written; trying again', {
        stage: 'status',
        policy,
        error: messageOf(error),
        retryIn,
      });
    },
  });
  const events = failureEvents({
    request: api.request,
    clock: systemClock,
    identity,
    failed: (error) =>
      void log.warn('an event could not be written', { stage: 'status', error: messageOf(error) }),
  });
  const statuses = statusKeeper({ writer, events, clock: systemClock });

  // Stages 1 to 3.
  const relist = [options.relistPeriod * 1000, options.relistPeriod * 2000] as const;
  const source = clusterSource({
    kubeConfig,
    failsafe: config.failsafe.ingress,
    interfaceGroups: Object.keys(config.interfaceGroups),
    times: { relist },
    onNotice: says.watch,
  });
  let compile = compiler();
  const withApiServer = apiServerMemory();
  const reported = new ReportedAddresses(log, () => {
    if (snapshot !== null) deliver(snapshot);
  });
  const worlds = changes();

  function deliver(next: Snapshot): void {
    says.problems(next);
    for (let isRetry = false; ; isRetry = true) {
      try {
        publish(next);
        break;
      } catch (error) {
        metrics.failed();
        // What it remembers may be wrong now: from the beginning, once.
        compile = compiler();
        const { message, stack } = error as Error;
        log.error('nodewall failed; what was published stays', { stage: 'compile', error: message, stack });
        if (isRetry) return;
      }
    }
    settle();
  }

  function publish(next: Snapshot): void {
    const started = performance.now();
    const objects = reported.on(withApiServer(next.objects));
    const compiled = compile(objects);
    hub.setEndpoints(apiServerEndpoints(objects));
    metrics.published(hub.publish(compiled));
    const invalid = next.problems.filter(({ severity }) => severity === 'error').length;
    const counts = { nodes: compiled.nodeAddresses.size, policies: compiled.policies.length, invalid };
    metrics.compiled((performance.now() - started) / 1000, counts);
    statuses.publish(next, compiled, hub.revision);
    snapshot = next;
    worlds.happened();
  }

  // What the cluster says of us.
  const times = { ...WATCH_TIMES, relist };
  const follow = { get: transport.get, times, random: Math.random, notice: says.watch };
  const reflectors: Reflector[] = [
    policyVersions(follow, statuses.version),
    followConfigMap({
      ...follow,
      namespace: 'kube-system',
      name: 'extension-apiserver-authentication',
      changed(data) {
        frontProxy = frontProxySetting(data);
        setTls();
      },
    }),
  ];
  const replicas = new Replicas({
    namespace: NAMESPACE,
    name: NAME,
    identity,
    self: options.podName ?? null,
    now: systemClock.now,
    changed() {
      registration.look();
      worlds.happened();
    },
    leaseChanged(lease) {
      gate.takeLease(lease?.annotations ?? null);
      if (lease?.holder === '') elected.look();
    },
  });
  const registration = new Registration({
    request: api.request,
    after: systemClock.after,
    facts: () => ({
      isServing: server !== null,
      isLast: stopping.signal.aborted && replicas.isLast,
      isStopping: isEnding,
      isNamespaceTerminating: replicas.isNamespaceTerminating,
      caBundle,
    }),
    done: (action) => void log.info('aggregated API', { stage: 'publish', action }),
    failed(error) {
      log.error('the APIService could not be written', { stage: 'publish', error: messageOf(error) });
    },
  });
  reflectors.push(...replicas.follow(follow), registration.follow(follow));
  if (ownsAuthority) reflectors.push(...followCaBundles(follow, () => certificates.look()));

  // The feature gate.
  const gate = new Gate(config.featureGates.NodeNetworkPolicy ?? null, {
    changed(enabled) {
      if (parts.gate === null) setGate(enabled);
    },
    problem: (text) => void log.error(`${text}; the feature gate stays as it was`, { stage: 'watch' }),
  });
  reflectors.push(
    followConfigMap({
      ...follow,
      namespace: NAMESPACE,
      name: 'nodewall-config',
      changed: (data) => gate.takeConfigMap(data),
    }),
  );
  if (parts.gate !== null) statuses.gate(parts.gate);

  function setGate(enabled: boolean): void {
    log.info('feature gate', { NodeNetworkPolicy: enabled });
    hub.setGate(enabled);
    statuses.gate(enabled);
    settle();
  }

  // Certificates.
  const certificates = certificateSource(parts, {
    service: { namespace: NAMESPACE, name: NAME },
    request: api.request,
    trusted(pem) {
      caBundle = Buffer.from(pem).toString('base64');
      registration.look();
    },
    changed(next) {
      certificate = next;
      setTls();
      log.info('serving with a new certificate', { stage: 'publish' });
    },
    failed(error) {
      log.error('certificates cannot be kept up; trying again', { stage: 'publish', error: error.message });
    },
  });

  const tls = ({ certificate: cert, key }: CertificateAndKey) => {
    return { cert, key, ...(frontProxy === null ? {} : { clientCa: frontProxy.clientCa }) };
  };

  function setTls(): void {
    if (certificate === null) return;
    server?.setTls(tls(certificate));
    admission?.setSecureContext({ cert: certificate.certificate, key: certificate.key });
  }

  // Who leads.
  const elected = election({
    store: leaseStore({
      request: api.request,
      namespace: NAMESPACE,
      name: NAME,
      annotations: () => gate.annotations(),
    }),
    identity,
    clock: systemClock,
    random: Math.random,
    events: {
      leading() {
        log.info('leading', { identity });
        settle();
      },
      lost(reason) {
        log.warn('no longer leading; staying warm', { identity, reason });
        settle();
      },
      leader(now) {
        if (now !== identity)
          log.info(now === '' ? 'nobody leads' : 'another replica leads', { leader: now });
      },
      failed: (error) => void log.warn('the Lease could not be read or written', { error: messageOf(error) }),
    },
  });

  /** Null, or why nothing can be served. */
  function missing(): string | null {
    if (stopping.signal.aborted) return 'stopping';
    if (!hub.ready) return 'the objects of the cluster have not all been listed yet';
    if (parts.gate === null && gate.enabled === null) return 'the feature gate has not been read yet';
    if (certificate === null) return 'there is no serving certificate yet';
    return null;
  }

  /** Serves and leads, or no longer, as it should be now; one after the other. */
  function settle(): void {
    changing = changing.then(serveOrNot).catch((error: unknown) => {
      fatal.reject(new CommandError(EXIT.refused, `--listen: ${messageOf(error)}`, { cause: error }));
    });
  }

  async function serveOrNot(): Promise<void> {
    const isDue = missing() === null;
    const leads = isDue && elected.isLeader();
    if (!leads && isLeading) {
      isLeading = false;
      server?.endStreams('this replica no longer leads');
      await statuses.lead(false);
    }
    if (isDue && server === null && certificate !== null) await serve(certificate);
    if (leads && !isLeading) {
      await statuses.lead(true);
      isLeading = true;
    }
  }

  async function serve(pair: CertificateAndKey): Promise<void> {
    const serving = controlPlaneServer({
      hub,
      tls: tls(pair),
      authenticate: firstOf(
        frontProxyAuthenticator(() => frontProxy),
        tokenAuthenticator({
          review: (spec) => reviewToken(api.request, spec),
          audiences: options.tokenAudiences.split(',').filter((audience) => audience !== ''),
          now: Date.now,
        }),
      ),
      authorise: accessAuthoriser((spec) => reviewAccess(api.request, spec), Date.now),
      refusesAgents: () =>
        isLeading ? null : standbyAnswer(replicas.isAnotherLeading, snapshot?.objects.nodes.length ?? 0),
      onReport(report) {
        metrics.reported();
        statuses.report(report);
        reported.take(report);
      },
      onEvent: says.server,
    });
    const { host, port } = parts.listen;
    const address = await serving.listen(port, host);
    server = serving;
    // Another may have come meanwhile.
    setTls();
    registration.look();
    log.info('serving', { address: address.address, port: address.port, revision: hub.revision });
  }

  /** Until others can go on without this controller. */
  async function serveOn(): Promise<void> {
    const started = systemClock.now();
    while (!stopping.signal.aborted) {
      const { next, why } = handover({
        self: replicas.self,
        pods: replicas.pods,
        isNamespaceTerminating: replicas.isNamespaceTerminating,
        isLeading,
        isPublished: ({ name, addresses }) =>
          snapshot?.objects.pods.some(
            (pod) =>
              pod.namespace === NAMESPACE && pod.name === name && isDeepStrictEqual(pod.addresses, addresses),
          ) === true,
        unsentBytes: server?.stats().unsentBytes ?? 0,
        waited: systemClock.now() - started,
      });
      if (next === 'end') {
        log.info('ending', { why });
        return;
      }
      await worlds.wait(HANDOVER_LOOK);
    }
  }

  // Admission, by every replica.
  const latest = latestWorld({ request: api.request, isCurrent: source.isCurrent });
  let admission = null as Server | null;
  async function serveWebhook(
    { host, port }: ListenAddress,
    { certificate: cert, key }: CertificateAndKey,
  ): Promise<void> {
    const serving = webhookServer(
      { cert, key },
      {
        world: () => ({
          objects: snapshot?.objects ?? null,
          failsafe: config.failsafe,
          interfaceGroups: Object.keys(config.interfaceGroups),
        }),
        changed: worlds.wait,
        latest,
        onFailure: (error) => void log.error('a review failed', { stage: 'webhook', error: error.message }),
      },
    );
    await new Promise<void>((resolve, reject) => {
      serving.once('error', reject);
      serving.listen({ port, ...(host === undefined ? {} : { host }) }, () => resolve());
    });
    admission = serving;
    const address = serving.address();
    log.info('serving webhooks', { port: typeof address === 'object' ? address?.port : port });
  }

  async function becomeReady(): Promise<void> {
    certificate = await certificates.start();
    settle();
    if (parts.webhook !== null) {
      await serveWebhook(parts.webhook, certificate).catch((cause: Error) => {
        throw new CommandError(EXIT.refused, `--webhook-listen: ${cause.message}`, { cause });
      });
    }
    await source.synced;
    if (!stopping.signal.aborted) elected.start();
  }

  const health =
    options.metricsListen === undefined
      ? null
      : await serveMetrics({
          listen: options.metricsListen,
          registry: metrics.registry,
          healthy: () => null,
          ready: () => missing() ?? (server === null ? 'about to serve' : null),
        });
  if (health !== null) log.info('metrics', { port: health.port });
  try {
    for (const one of reflectors) one.start();
    await source.start(deliver);
    becomeReady().catch((error: unknown) => {
      if (!stopping.signal.aborted) fatal.reject(error);
    });
    const signal = await Promise.race([untilStopped(), fatal.promise]);
    log.info('stopping; agents enforce what they have', { signal });
    isEnding = true;
    await Promise.race([serveOn(), untilStopped(stopping.signal), fatal.promise]);
    return EXIT.done;
  } finally {
    stopping.abort();
    worlds.happened();
    settle();
    await changing;
    // Not before no agent is served any more.
    await elected.release();
    await registration.close();
    await server?.close();
    admission?.close();
    admission?.closeAllConnections();
    await Promise.all([
      ...reflectors.map((one) => one.close()),
      source.close(),
      reported.close(),
      certificates.close(),
      health?.close(),
    ]);
    await statuses.lead(false);
    transport.close();
    api.close();
  }
}
