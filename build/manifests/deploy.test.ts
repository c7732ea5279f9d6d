import assert from 'node:assert/strict';
import { existsSync, globSync, lstatSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { parseConfig } from '../../apis/config-file.ts';
import { API_SERVICE_TARGET } from '../../controller/kubeapi/api-service.ts';
import { gateSetting } from '../../controller/kubeapi/configmap/feature-gate.ts';
import { controllerRole, type RbacRule } from '../../controller/kubeapi/kube-error.ts';
import { AGENT_API_CALLS, API_CALLS, type ApiCall } from '../../test/e2e/api-calls.ts';
import { run } from '../programs/command.ts';
import { filesBelow, ROOT } from '../programs/folder.ts';

interface Labelled {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}
interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext: object;
}
interface PodSpec {
  readonly serviceAccountName: string;
  readonly containers: readonly [Container];
  readonly volumes: readonly { readonly name: string }[];
}
interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}
interface Service {
  readonly name: string;
  readonly namespace: string;
  readonly port: number;
}
/** As much of the kinds in deploy/ as is looked at. */
interface Manifest {
  readonly kind: string;
  readonly metadata: Labelled;
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly Labelled[];
  readonly webhooks?: readonly { readonly clientConfig: { readonly service: Service } }[];
  readonly spec?: {
    readonly selector?: Readonly<Record<string, string>> & { readonly matchLabels?: Record<string, string> };
    readonly template?: { readonly metadata: Labelled; readonly spec: PodSpec };
    readonly ports?: readonly { readonly port: number; readonly targetPort: string | number }[];
    readonly service?: Service;
  };
}

/** Without labels: nothing that prunes by labels finds it. */
const GATE = { name: 'nodewall-config', namespace: 'nodewall-system' };
const BASE = 'deploy/kustomize/base';

function readManifests(path: string): Manifest[] {
  return parseAllDocuments(readFileSync(join(ROOT, path), 'utf8')).map((document) => {
    assert.deepEqual([...document.errors, ...document.warnings], [], path);
    return document.toJS() as Manifest;
  });
}

function kinds(manifests: readonly Manifest[], kind: string): Manifest[] {
  return manifests.filter((manifest) => manifest.kind === kind);
}

function isWithin(
  wanted: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>> = {},
): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

describe('deploy', () => {
  const own = globSync(`${BASE}/*.yaml`, { cwd: ROOT }).filter(
    (path) => !/kustomization|agent-config/.test(path),
  );
  const crds = globSync('deploy/crds/*.yaml', { cwd: ROOT });
  const base = [...own, ...crds].flatMap(readManifests);
  const workloads = base.filter(({ spec }) => spec?.template !== undefined);
  const podOf = ({ spec }: Manifest): PodSpec => spec?.template?.spec ?? assert.fail();

  it('has every file of the base in its kustomization', () => {
    const resourcesOf = (path: string): string[] =>
      (readManifests(path)[0] as unknown as { readonly resources: string[] }).resources.toSorted();
    const names = (paths: readonly string[]): string[] => paths.map((path) => basename(path)).sort();
    assert.deepEqual(resourcesOf(`${BASE}/kustomization.yaml`), ['../../crds', ...names(own)]);
    assert.deepEqual(resourcesOf('deploy/crds/Kustomization'), names(crds));
  });

  it('configures agents with valid settings', () => {
    const paths = globSync('deploy/kustomize/**/agent-config.yaml', { cwd: ROOT });
    assert.equal(paths.length, 4);
    for (const path of paths)
      assert.deepEqual(parseConfig(readFileSync(join(ROOT, path), 'utf8'), path).problems, []);
  });

  it('leaves the feature gate and the aggregated API out of the base', () => {
    const [on, off] = ['on', 'off'].flatMap((name) => readManifests(`deploy/gate/${name}.yaml`));
    for (const { kind, metadata } of [on ?? assert.fail(), off ?? assert.fail()]) {
      assert.deepEqual({ kind, metadata }, { kind: 'ConfigMap', metadata: GATE });
      assert.ok(!base.some((each) => each.kind === kind && each.metadata.name === metadata.name));
    }
    const texts = [on, off].map((each) => gateSetting(each?.data ?? null));
    assert.deepEqual(
      texts,
      [true, false].map((enabled) => ({ enabled, problems: [] })),
    );
    assert.deepEqual(kinds(base, 'APIService'), []);
  });

  it('has each object once', () => {
    const names = base.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''} ${metadata.name}`);
    assert.deepEqual(names, [...new Set(names)]);
  });

  it('selects existing pods', () => {
    assert.equal(workloads.length, 2);
    for (const { spec, metadata } of workloads) {
      const { matchLabels = {} } = spec?.selector ?? {};
      assert.ok(Object.keys(matchLabels).length > 0);
      assert.ok(isWithin(matchLabels, spec?.template?.metadata.labels), metadata.name);
    }
    const selecting = [...kinds(base, 'Service'), ...kinds(base, 'PodDisruptionBudget')];
    assert.equal(selecting.length, 2);
    for (const { spec, metadata } of selecting) {
      const wanted = spec?.selector?.matchLabels ?? spec?.selector ?? {};
      const selected = workloads.filter((workload) =>
        isWithin(wanted, workload.spec?.template?.metadata.labels),
      );
      assert.deepEqual(
        selected.map(({ metadata: { name } }) => name),
        ['nodewall-controller'],
        metadata.name,
      );
    }
  });

  it('has Services with existing ports, and refers to no other Service', () => {
    const [service] = kinds(base, 'Service');
    const [controller] = kinds(base, 'Deployment').map(podOf);
    const { ports: named = [], args = [] } = controller?.containers[0] ?? {};
    const served = [...named.map(({ name }) => name), ...args.map((arg) => /listen=:(\d+)$/.exec(arg)?.[1])];
    const ports = service?.spec?.ports ?? [];
    for (const { targetPort } of ports) assert.ok(served.includes(`${targetPort}`), `${targetPort}`);
    const called = [
      API_SERVICE_TARGET,
      ...base.flatMap(({ webhooks = [] }) => webhooks.map(({ clientConfig }) => clientConfig.service)),
    ];
    assert.equal(called.length, 5);
    for (const call of called) {
      assert.deepEqual([call?.name, call?.namespace], ['nodewall-controller', 'nodewall-system']);
      assert.ok(ports.some(({ port }) => port === call?.port));
    }
    const [agent] = kinds(base, 'DaemonSet').map(podOf);
    const url = agent?.containers[0].args.find((arg) => arg.startsWith('--controller='))?.slice(13) ?? '';
    const { protocol, hostname, port } = new URL(url);
    assert.deepEqual([protocol, hostname], ['https:', 'nodewall-controller.nodewall-system.svc']);
    assert.ok(ports.some((each) => each.port === Number(port || 443)));
  });

  it('gives containers the ports, folders and files of their arguments', () => {
    for (const workload of workloads) {
      const { containers, volumes } = podOf(workload);
      const [{ args, ports, volumeMounts }] = containers;
      for (const { name } of volumeMounts)
        assert.ok(
          volumes.some((volume) => volume.name === name),
          name,
        );
      assert.equal(volumes.length, volumeMounts.length);
      for (const [, path = ''] of args.flatMap((arg) => [...arg.matchAll(/^--[\w-]+=(\/.*)$/g)])) {
        assert.ok(
          volumeMounts.some(({ mountPath }) => path === mountPath || path.startsWith(`${mountPath}/`)),
          path,
        );
      }
      for (const { containerPort } of ports ?? []) {
        assert.ok(
          args.some((arg) => arg.endsWith(`listen=:${containerPort}`)),
          `${containerPort}`,
        );
      }
    }
  });

  it('gives the containers no capability but NET_ADMIN, and only the state directory writable, and memory', () => {
    const [agent, controller] = ['DaemonSet', 'Deployment'].map((kind) =>
      podOf(kinds(base, kind)[0] ?? assert.fail()),
    );
    const shared = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true };
    const capabilities = { drop: ['ALL'], add: ['NET_ADMIN'] };
    assert.deepEqual(agent?.containers[0].securityContext, { runAsUser: 0, ...shared, capabilities });
    assert.deepEqual(controller?.containers[0].securityContext, {
      ...shared,
      capabilities: { drop: ['ALL'] },
    });
    const writable = [agent, controller].flatMap((pod) =>
      (pod?.containers[0].volumeMounts ?? []).filter((mount) => !('readOnly' in mount)),
    );
    assert.deepEqual(writable, [
      { name: 'state', mountPath: '/var/lib/nodewall' },
      { name: 'run', mountPath: '/run/nodewall' },
    ]);
  });

  it('gives agents with component egress NET_RAW besides, and nothing else', () => {
    const [component] = readManifests('deploy/kustomize/components/egress/kustomization.yaml') as unknown as [
      { readonly patches: readonly { readonly target: object; readonly patch: string }[] },
    ];
    const path = '/spec/template/spec/containers/0/securityContext/capabilities/add/-';
    assert.deepEqual(
      component.patches.map(({ target, patch }) => [
        target,
        ...parseAllDocuments(patch).map((one) => one.toJS()),
      ]),
      [[{ kind: 'DaemonSet', name: 'nodewall-agent' }, [{ op: 'add', path, value: 'NET_RAW' }]]],
    );
  });

  /** Without those that are for scrapers of metrics, and for people. */
  const ownRoles = () =>
    [...kinds(base, 'Role'), ...kinds(base, 'ClusterRole')].filter(
      ({ metadata }) =>
        !['nodewall-metrics-reader', 'nodewall-view', 'nodewall-operator'].includes(metadata.name),
    );

  it('binds existing roles to ServiceAccounts in use', () => {
    const bindings = [...kinds(base, 'RoleBinding'), ...kinds(base, 'ClusterRoleBinding')];
    const roles = ownRoles();
    assert.equal(bindings.length, roles.length);
    for (const { roleRef, subjects, metadata } of bindings) {
      const namespace = roleRef?.kind === 'Role' ? metadata.namespace : undefined;
      const role = kinds(roles, roleRef?.kind ?? '').find(
        (each) => each.metadata.name === roleRef?.name && each.metadata.namespace === namespace,
      );
      assert.ok(role !== undefined, metadata.name);
      assert.deepEqual(
        subjects?.map(({ name, namespace: of }) => `${of}/${name}`),
        [`nodewall-system/${metadata.name === 'nodewall-agent' ? 'nodewall-agent' : 'nodewall-controller'}`],
        metadata.name,
      );
      assert.equal(roleRef?.name, metadata.name);
    }
    assert.deepEqual(
      workloads.map((workload) => podOf(workload).serviceAccountName).sort(),
      kinds(base, 'ServiceAccount')
        .map(({ metadata }) => metadata.name)
        .sort(),
    );
  });

  it('allows exactly the requests that the program makes', () => {
    const roles = ownRoles();
    const allowedBy = (wanted: (role: string) => boolean): string[] =>
      roles
        .filter(({ metadata }) => wanted(metadata.name))
        .flatMap(({ metadata, rules = [] }) =>
          rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [''] }) =>
            apiGroups.flatMap((group) =>
              resources.flatMap((resource) =>
                verbs.flatMap((verb) =>
                  resourceNames.map((name) =>
                    line({ group, resource, verb, name, namespace: metadata.namespace ?? '' }),
                  ),
                ),
              ),
            ),
          ),
        );
    const lines = (calls: readonly ApiCall[]): string[] =>
      calls.map(({ name = '', namespace = '', ...call }) => line({ ...call, name, namespace })).sort();
    assert.deepEqual(allowedBy((role) => role !== 'nodewall-agent').sort(), lines(API_CALLS));
    assert.deepEqual(allowedBy((role) => role === 'nodewall-agent').sort(), lines(AGENT_API_CALLS));
    for (const { from } of [...API_CALLS, ...AGENT_API_CALLS]) assert.ok(existsSync(join(ROOT, from)), from);
  });

  it('has the rights of controllers in the roles that a missing right is said to be in', () => {
    for (const role of ownRoles().filter(({ metadata }) => metadata.name !== 'nodewall-agent'))
      for (const { apiGroups, resources, verbs } of role.rules ?? [])
        for (const resource of resources) {
          const { name, namespace = null } = role.metadata;
          const rule: RbacRule = {
            apiGroups: [apiGroups[0] ?? ''],
            resources: [resource],
            verbs: [verbs[0] ?? ''],
            namespace,
          };
          const place = namespace === null ? '' : ` in namespace ${namespace}`;
          assert.equal(controllerRole(rule), `${role.kind} ${name}${place}`, resource);
        }
  });

  it('passes only existing options to the commands', async () => {
    for (const workload of workloads) {
      const [command = '', ...args] = podOf(workload).containers[0].args;
      const { stdout } = await run([join(ROOT, 'bin/nodewall'), command, '--help']);
      const known = [...stdout.matchAll(/--[\w-]+/g)].map(([option]) => option);
      for (const arg of args) assert.ok(known.includes(arg.split('=')[0] ?? ''), `${command} ${arg}`);
    }
  });
});

function line({
  verb,
  group,
  resource,
  name = '',
  namespace = '',
}: Omit<ApiCall, 'from' | 'verb'> & { verb: string }): string {
  return `${verb} ${resource}.${group} ${name} in ${namespace || 'the cluster'}`;
}

describe('deploy/Dockerfile', () => {
  const text = readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8')
    .replace(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ');
  const steps = text.split('\n').flatMap((row) => {
    const [, instruction = '', rest = ''] = /^([A-Z]+) +(.*)$/.exec(row) ?? [];
    return instruction === '' ? [] : [{ instruction, rest }];
  });
  const of = (wanted: string): string[] =>
    steps.flatMap(({ instruction, rest }) => (instruction === wanted ? [rest] : []));

  it('copies existing files, and every folder of the program', () => {
    const copied = of('COPY')
      .filter((rest) => !rest.startsWith('--from'))
      .flatMap((rest) => rest.split(/ +/).slice(0, -1));
    for (const path of copied) assert.ok(existsSync(join(ROOT, path)), path);
    for (const folder of ['apis/', 'lib/', 'controller/', 'agent/', 'cli/', 'console/'])
      assert.ok(copied.includes(folder), folder);
    const taken = readFileSync(join(ROOT, '.dockerignore'), 'utf8')
      .split('\n')
      .flatMap((row) => (row.startsWith('!') ? [row.slice(1)] : []));
    for (const path of copied)
      assert.ok(
        taken.some((each) => path === each || path.startsWith(each)),
        path,
      );
  });

  it('builds and runs on one Debian, with the major version of Node.js that package.json pins', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const compiler = `node:${dependencies.node.split('.')[0]}-bookworm`;
    assert.deepEqual(of('FROM'), [
      `${compiler} AS build`,
      'debian:12-slim AS debian',
      `${compiler} AS program`,
      'scratch AS controller',
      'scratch AS agent',
    ]);
  });

  it('installs every workspace', () => {
    const { workspaces } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const links = of('RUN').flatMap((rest) => [...rest.matchAll(/ln -s ((?:\.\.\/\S+ )+)node_modules\//g)]);
    const linked = links.flatMap(([, targets = '']) => targets.trim().split(' '));
    assert.deepEqual(
      linked.sort(),
      workspaces.map((folder: string) => `../${folder}`),
    );
  });

  it('runs without a shell, and the controller as an unprivileged user', () => {
    for (const form of [...of('ENTRYPOINT'), ...of('CMD')]) assert.ok(Array.isArray(JSON.parse(form)));
    assert.deepEqual(of('USER'), ['65532:65532', '0:0']);
    assert.deepEqual(of('ENTRYPOINT'), Array(2).fill('["/usr/local/bin/nodewall"]'));
  });

  it('has the labels of the program: name, version, and the manifests without a command', () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    for (const label of of('LABEL')) assert.ok(label.includes(`version="${version}"`), label);
    const [{ images } = { images: [] }] = readManifests(`${BASE}/kustomization.yaml`) as unknown as [
      { images: { name: string; newTag: string }[] },
    ];
    assert.deepEqual(
      images.map(({ name, newTag }) => `${name}:${newTag}`),
      ['controller', 'agent'].map((target) => `nodewall-${target}:${version}`),
    );
    for (const target of ['controller', 'agent']) {
      const [container] = readManifests(`${BASE}/${target}.yaml`)
        .flatMap(({ spec }) => spec?.template?.spec ?? [])
        .flatMap(({ containers }) => containers);
      assert.equal(container?.image, `nodewall-${target}`);
      assert.ok(!('command' in (container ?? {})), 'the image knows what Node.js must be told');
    }
  });

  it('starts Node.js with the same options in the images as in a checkout', () => {
    const [checkout = [], image = []] = ['bin/nodewall', 'bin/image-launcher.c'].map((path) =>
      [
        ...readFileSync(join(ROOT, path), 'utf8').matchAll(
          /--[a-z-]+(?:=\d+)?|MALLOC_ARENA_MAX|UV_THREADPOOL_SIZE/g,
        ),
      ].map(([word]) => word),
    );
    assert.equal(checkout.length, 7);
    assert.deepEqual(image, checkout);
  });
});

describe('YAML in deploy', () => {
  it('has no 15 lines that another place has too, but for schemas, which each CRD must have whole', () => {
    const places = new Map<string, string>();
    for (const path of filesBelow('deploy')) {
      const file = join(ROOT, path);
      if (!/\.yaml$|\/Kustomization$/.test(path) || lstatSync(file).isSymbolicLink()) continue;
      if (path.startsWith('deploy/crds/') || path.endsWith('/admission-policies/policies.yaml')) continue;
      // The same text may be indented otherwise.
      const lines = readFileSync(file, 'utf8')
        .split('\n')
        .map((line) => line.trim());
      for (let at = 0; at + 15 <= lines.length; at++) {
        const block = lines.slice(at, at + 15).join('\n');
        assert.equal(places.get(block), undefined, `${path}:${at + 1}`);
        places.set(block, `${path}:${at + 1}`);
      }
    }
    assert.ok(places.size > 1_000);
  });
});

describe('deploy/systemd', () => {
  it('allows the agent DNS queries and netlink', () => {
    const unit = readFileSync(join(ROOT, 'deploy/systemd/nodewall.service'), 'utf8');
    const [, families = ''] = /^RestrictAddressFamilies=(.*)$/m.exec(unit) ?? [];
    assert.deepEqual(families.split(' ').sort(), ['AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_UNIX']);
    assert.match(unit, /^CapabilityBoundingSet=CAP_NET_ADMIN$/m);
  });
});
