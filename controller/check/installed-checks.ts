import { X509Certificate } from 'node:crypto';
import { CONTROLLERS_PATH } from '../../apis/controller-state.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { type CheckLine, firstNames, ok, problem, warning } from '../../lib/process/check-line.ts';
import { clientConfigs, isSecretPath } from '../kubeapi/certificates/webhook-configurations.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';
import type { Lease } from '../kubeapi/lease/lease.ts';
import { type CheckedObject, readObject, type SingleCheck } from './checked.ts';
import { clusterNetworks, featureGates } from './settings-check.ts';

const SYSTEM = 'namespaces/nodewall-system';
const API_SERVICE = `/apis/apiregistration.k8s.io/v1/apiservices/${CONTROL_PLANE.version}.${CONTROL_PLANE.group}`;
const LEASE = `/apis/coordination.k8s.io/v1/${SYSTEM}/leases/nodewall-controller`;
const DEPLOYMENT = `/apis/apps/v1/${SYSTEM}/deployments/nodewall-controller`;
const DAEMON_SET = `/apis/apps/v1/${SYSTEM}/daemonsets/nodewall-agent`;
const CA = `/api/v1/${SYSTEM}/configmaps/nodewall-ca`;
const WEBHOOKS = ['mutating', 'validating'] as const;
/** deploy/kustomize/base/webhooks.yaml; with overlays/fail-closed the first two have Fail too. */
const CHECKING_WEBHOOKS = ['mutate.nodewall.io', 'validate.nodewall.io'];
const ALWAYS_WEBHOOKS = ['use.nodewall.io', 'validate.deletions.nodewall.io'];
/** One of deploy/kustomize/components/admission-policies. */
const POLICIES =
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/clusternetworkpolicies.nodewall.io';
/** Milliseconds since a Lease was renewed; it is every 2 s. */
const LEASE_OLD = 60_000;
/** Milliseconds before a CA ends. Controllers make the next one eight months before. */
const CA_NEAR = 30 * 24 * 3_600_000;
const LOGS = 'kubectl logs -n nodewall-system deployment/nodewall-controller';

/**
 * Whether nodewall is in the cluster, in whole or in part; also true where the user may not see it,
 * as each check then names the right that is missing. Throws KubeError.
 */
export async function isInstalled(request: KubeApi): Promise<boolean> {
  const isThere = async (path: string): Promise<boolean> => {
    try {
      return (await readObject(request, path)) !== null;
    } catch (error) {
      if (isKubeError(error, 'Forbidden')) return true;
      throw error;
    }
  };
  return (await Promise.all([API_SERVICE, LEASE, DEPLOYMENT].map(isThere))).includes(true);
}

/**
 * Checks of the controllers.
 * @param now milliseconds since 1970
 */
export function installedChecks(now: number): Readonly<Record<string, SingleCheck>> {
  return {
    controllers: (request) => leader(request, now),
    pods: workloads,
    tokens,
    'aggregated API': aggregatedApi,
    webhooks,
    'feature gate': featureGates,
    networks: clusterNetworks,
    endpoints: endpointsOfPods,
    certificates: (request) => certificates(request, now),
  };
}

async function leader(request: KubeApi, now: number): Promise<readonly CheckLine[]> {
  const { holderIdentity = '', renewTime = '' } = (await readObject<Lease>(request, LEASE))?.spec ?? {};
  const age = now - Date.parse(renewTime);
  if (holderIdentity !== '' && age <= LEASE_OLD) return [ok('controllers', `${holderIdentity} leads`)];
  const since = renewTime === '' ? '' : `; the Lease was last renewed at ${renewTime}`;
  return [problem('controllers', `no controller leads: no status is written${since}`, LOGS)];
}

async function workloads(request: KubeApi): Promise<readonly CheckLine[]> {
  const [deployment, daemonSet] = await Promise.all([
    readObject(request, DEPLOYMENT),
    readObject(request, DAEMON_SET),
  ]);
  return [
    ...ready('Deployment nodewall-controller', deployment, ['replicas', 'readyReplicas']),
    ...ready('DaemonSet nodewall-agent', daemonSet, ['desiredNumberScheduled', 'numberReady']),
  ];
}

function ready(
  name: string,
  object: CheckedObject | null,
  [wanted, there]: readonly [string, string],
): readonly CheckLine[] {
  if (object === null)
    return [
      warning(
        'pods',
        `there is no ${name}`,
        'kubectl apply -k deploy/kustomize/base, unless it runs elsewhere',
      ),
    ];
  const [all, isReady] = [Number(object.status?.[wanted] ?? 0), Number(object.status?.[there] ?? 0)];
  const message = `${name}: ${isReady} of ${all} ready`;
  if (all > 0 && isReady >= all) return [ok('pods', message)];
  const next = 'kubectl get pods -n nodewall-system -o wide';
  return [isReady === 0 ? problem('pods', message, next) : warning('pods', message, next)];
}

async function aggregatedApi(request: KubeApi): Promise<readonly CheckLine[]> {
  const [service, ca, deployment] = await Promise.all(
    [API_SERVICE, CA, DEPLOYMENT].map((path) => readObject(request, path)),
  );
  const check = 'aggregated API';
  if (service == null && JSON.stringify(deployment ?? null).includes('"--no-aggregated-api"'))
    return [ok(check, "it is off; a controller's pod answers in its place, by kubectl exec")];
  if (service == null) return [problem(check, 'it is not registered: no controller serves', LOGS)];
  const { caBundle, insecureSkipTLSVerify } = service.spec ?? {};
  const lines: CheckLine[] = [];
  const conditions = asList(service.status?.conditions).map((one) => asFields(one) ?? {});
  const available = conditions.find(({ type }) => type === 'Available');
  if (available?.status !== 'True')
    lines.push(
      problem(
        check,
        `the API server does not reach it: ${String(available?.message ?? 'no condition yet')}; namespaces cannot be deleted meanwhile`,
        `${LOGS}; then look for a NetworkPolicy or firewall between API server and pods (controllerPorts, 8443 by default)`,
      ),
    );
  if (insecureSkipTLSVerify === true || !isTrusted(caBundle, ca ?? null))
    lines.push(
      problem(
        check,
        'its caBundle is not the CA of ConfigMap nodewall-ca',
        `a controller writes it again within seconds; if it stays: ${LOGS}`,
      ),
    );
  return lines.length > 0 ? lines : [ok(check, 'available, with the CA of ConfigMap nodewall-ca')];
}

async function webhooks(request: KubeApi): Promise<readonly CheckLine[]> {
  const path = (kind: string): string =>
    `/apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations/nodewall`;
  const [ca, ...found] = await Promise.all([
    readObject(request, CA),
    ...WEBHOOKS.map((kind) =>
      readObject<CheckedObject & { readonly webhooks?: unknown }>(request, path(kind)),
    ),
  ]);
  const absent = WEBHOOKS.filter((_, i) => found[i] === null);
  const apply = 'kubectl apply --server-side -k deploy/kustomize/base';
  if (absent.length === WEBHOOKS.length && (await readObject(request, POLICIES)) !== null)
    return [ok('webhooks', 'policies of the API server take their place')];
  if (absent.length > 0)
    return [
      problem(
        'webhooks',
        `there is no ${absent.join(' and no ')} configuration: invalid objects are stored`,
        apply,
      ),
    ];
  const all = found.flatMap((one) => asList(one?.webhooks).map((hook) => asFields(hook) ?? {}));
  const untrusted = all.filter(({ clientConfig }) => !isTrusted(asFields(clientConfig)?.caBundle, ca));
  if (untrusted.length > 0)
    return [
      problem(
        'webhooks',
        `the caBundle of ${firstNames(untrusted.map(({ name }) => String(name)))} is not the CA of ConfigMap nodewall-ca`,
        `a controller fills it in within seconds; if it stays: ${LOGS}`,
      ),
    ];
  const open = found
    .flatMap((one) => clientConfigs({ webhooks: one?.webhooks }))
    .filter(({ step, path }) => step !== null && !isSecretPath(path));
  if (open.length > 0)
    return [
      problem(
        'webhooks',
        `the path of ${firstNames(open.map(({ step }) => `${step}.nodewall.io`))} is not one that a controller wrote, so controllers refuse its requests`,
        `a controller writes it within seconds; if it stays: ${LOGS}`,
      ),
    ];
  const policyOf = (name: string): string =>
    String(all.find((one) => one.name === name)?.failurePolicy ?? 'absent');
  const [policy = '', ...others] = CHECKING_WEBHOOKS.map(policyOf);
  const isAlways = ALWAYS_WEBHOOKS.every((name) => policyOf(name) === 'Fail');
  if (!isAlways || policy === 'absent' || others.some((other) => other !== policy))
    return [
      warning(
        'webhooks',
        `failurePolicy is not as installed: ${all.map(({ name, failurePolicy }) => `${name} ${failurePolicy}`).join(', ')}`,
        apply,
      ),
    ];
  const meaning =
    policy === 'Ignore'
      ? 'objects are stored unchecked while no controller answers'
      : 'objects cannot be written while no controller answers';
  return [ok('webhooks', `failurePolicy ${policy}: ${meaning}`)];
}

async function certificates(request: KubeApi, now: number): Promise<readonly CheckLine[]> {
  const text = (await readObject(request, CA))?.data?.['ca.crt'];
  if (text === undefined)
    return [problem('certificates', 'there is no ConfigMap nodewall-ca: agents trust no controller', LOGS)];
  const ends = pems(text)
    .map((pem) => endOf(pem))
    .filter((end) => end !== null);
  const last = Math.max(...ends);
  if (ends.length === 0) return [problem('certificates', 'ConfigMap nodewall-ca holds no certificate', LOGS)];
  const message = `the CA is valid until ${new Date(last).toISOString().slice(0, 10)}`;
  if (last <= now) return [problem('certificates', message, LOGS)];
  if (last - now < CA_NEAR)
    return [warning('certificates', message, `${LOGS}: the next one should be there`)];
  return [ok('certificates', message)];
}

/** Whether all CAs of a caBundle (Base64 of PEM) are in ConfigMap nodewall-ca; one at least. */
function isTrusted(caBundle: unknown, ca: CheckedObject | null): boolean {
  if (typeof caBundle !== 'string') return false;
  const known = new Set(pems(ca?.data?.['ca.crt'] ?? ''));
  const held = pems(Buffer.from(caBundle, 'base64').toString());
  return held.length > 0 && held.every((pem) => known.has(pem));
}

/** The certificates of a text, without their white space. */
function pems(text: string): string[] {
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return found.map((pem) => pem.replaceAll(/\s+(?!CERTIFICATE)/g, '\n'));
}

/** Null: it is none. */
function endOf(pem: string): number | null {
  try {
    return new X509Certificate(pem).validToDate.getTime();
  } catch {
    return null;
  }
}

const CHECK = 'endpoints';

/** Whether endpoints of the Services of toServices count, which a pod must have. */
export async function endpointsOfPods(request: KubeApi): Promise<readonly CheckLine[]> {
  const list = await readObject<CheckedObject & { readonly items?: unknown }>(request, CONTROLLERS_PATH);
  const states = asList(list?.items).map((item) => asFields(asFields(item)?.state));
  if (states.every((state) => !Array.isArray(state?.leftOutServices))) return [];
  const names = [...new Set(states.flatMap((state) => asList(state?.leftOutServices).map(String)))].sort();
  if (names.length === 0) return [ok(CHECK, 'pods have all endpoints of Services in toServices')];
  return [
    warning(
      CHECK,
      `no pod of the namespace has some endpoints, which toServices leaves out: ${firstNames(names)}`,
      `if they are right, add to config.yaml in ConfigMap nodewall-config: endpointsWithoutPods: [${names.join(', ')}]`,
    ),
  ];
}

interface Dated {
  readonly metadata?: {
    readonly name?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec?: { readonly serviceAccountName?: string };
}

const NAMESPACE = '/api/v1/namespaces/nodewall-system';
/** By ServiceAccount. */
const WORKLOADS = {
  'nodewall-controller': 'deployment/nodewall-controller',
  'nodewall-agent': 'daemonset/nodewall-agent',
} as const;

/** Whether the pods' tokens are of their ServiceAccounts, not of earlier ones of that name. */
async function tokens(request: KubeApi): Promise<readonly CheckLine[]> {
  const { items = [] } =
    (await readObject<{ readonly items?: readonly Dated[] }>(request, `${NAMESPACE}/pods`)) ?? {};
  const lines: CheckLine[] = [];
  for (const [name, workload] of Object.entries(WORKLOADS)) {
    const pods = items.filter(
      ({ spec, metadata }) => spec?.serviceAccountName === name && metadata?.deletionTimestamp === undefined,
    );
    if (pods.length === 0) continue;
    const account = await readObject<Dated>(request, `${NAMESPACE}/serviceaccounts/${name}`);
    const made = timeOf(account);
    const older = pods.filter((pod) => timeOf(pod) < made);
    if (account === null)
      lines.push(
        problem(
          'tokens',
          `there is no ServiceAccount ${name}: the API server accepts no token of its ${pods.length} pods`,
          `kubectl apply --server-side -k deploy/kustomize/base; then kubectl rollout restart -n nodewall-system ${workload}`,
        ),
      );
    else if (older.length > 0)
      lines.push(
        problem(
          'tokens',
          `ServiceAccount ${name} was made again after these pods began, whose tokens are not accepted: ${firstNames(older.map(({ metadata }) => metadata?.name ?? ''))}`,
          `kubectl rollout restart -n nodewall-system ${workload}`,
        ),
      );
    else lines.push(ok('tokens', `of ServiceAccount ${name}, as it is now`));
  }
  return lines;
}

/** Milliseconds since 1970. */
function timeOf(object: Dated | null): number {
  return Date.parse(object?.metadata?.creationTimestamp ?? '');
}
