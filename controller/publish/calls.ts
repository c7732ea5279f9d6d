import { AGENT_CALLS, type Call } from '../../apis/calls.ts';
import { CONTROLLERS_PATH, type ControllerItem, type ControllerState } from '../../apis/controller-state.ts';
import { type LeaseAnswer, type LeaseRequest, parseLeaseRequest } from '../../apis/heartbeat.ts';
import {
  ALL_NODES_PATH,
  METRICS_PATH,
  NODE_ANSWER,
  NODE_DATA,
  NODE_QUESTION,
  PASSED_QUESTION,
} from '../../apis/node-question.ts';
import { type NodeReport, parseReport } from '../../apis/node-report.ts';
import {
  INWARD_QUESTION,
  type InwardAnswer,
  type InwardQuestion,
  type InwardResult,
  PEER_ANSWER,
  type PeerAnswer,
} from '../../apis/probes.ts';
import { checked, decode } from '../../apis/schema/shape.ts';
import { CONTROL_PLANE, NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { CONSOLE_ROWS, type ConsoleOptions } from '../console/console-requests.ts';
import { type Answer, refused, unavailable } from './answer.ts';
import { DISCOVERY } from './api-objects.ts';
import type { Authenticate } from './auth.ts';
import type { Hub } from './hub.ts';
import type { NodeQuestionService } from './node-questions.ts';
import type { NodeReports } from './node-reports.ts';
import { LEASE_BATCH, PASSED_PROBES, PEER_CALLS, REPORT_BATCH } from './peer-calls.ts';
import { type Right, type RoutedRequest, type RouteOptions, type RouteRow, row } from './route.ts';
import { listViews, readView, selectedName, type ViewOptions, watchView } from './view-requests.ts';

interface LeaseOptions extends RouteOptions {
  /** Heartbeats of egress gateways; absent: the feature gate EgressGateway is off. */
  readonly leases?: LeaseService;
}

export interface AnswerOptions extends LeaseOptions, ViewOptions, ConsoleOptions {
  readonly hub: Hub;
  /** Updated here. */
  readonly reports: NodeReports;
  readonly onReport: (report: NodeReport, from: 'agent' | 'controller') => void;
  /** Absent: this controller makes no probes. */
  readonly probes?: ProbeService;
  /** Absent: this controller asks no agents. */
  readonly nodeQuestions?: NodeQuestionService;
  /** Absent: this controller says nothing of itself. */
  readonly controllers?: ControllerStates;
  readonly metrics?: MetricsSource;
}

const NO_LEASES = 'the feature gate EgressGateway of this controller is off';
const NO_PROBES = 'this controller makes no probes to nodes';
const NO_QUESTIONS = 'this controller asks no agents';
const NO_STATE = 'this controller says nothing of itself';
const NO_METRICS = 'this controller has no metrics';

const leases = { service: ({ leases: of }: LeaseOptions) => of, absent: NO_LEASES };
/** Answered by the controller's own state: it always has one. */
const own = { service: (options: AnswerOptions) => options, absent: '' };
const probes = { service: ({ probes: of }: AnswerOptions) => of, absent: NO_PROBES };
const questions = { service: ({ nodeQuestions }: AnswerOptions) => nodeQuestions, absent: NO_QUESTIONS };
const states = { service: ({ controllers }: AnswerOptions) => controllers, absent: NO_STATE };
const metrics = { service: ({ metrics: of }: AnswerOptions) => of, absent: NO_METRICS };

/** The right to a part of the Node's view. */
const ofNode =
  (verb: 'get' | 'update', subresource: string) =>
  ({ node: name }: RoutedRequest<unknown>): Right => ({ verb, resource: 'nodeviews', subresource, name });
const SCRAPE: Right = { verb: 'get', path: METRICS_PATH };
const GROUP_VERSION = `${CONTROL_PLANE.group}/${CONTROL_PLANE.version}`;
const DONE: Answer = { code: 204, body: null };

/** The parts of an agent's row that follow from its call. */
function ofAgent<Body>(
  { method, path, mostRequest: most }: Call<never, unknown>,
  title: string,
  parse: (value: unknown, node: string) => Body,
) {
  return { methods: [method], path, caller: 'agent', body: { most, title, parse } } as const;
}

/** The parts of a controller's row that follow from its call; controllers limit themselves. */
function ofPeer<Body>(
  { method, path, mostRequest: most }: Call<never, unknown>,
  title: string,
  parse: (value: unknown) => Body,
) {
  const body = { most, title, parse };
  return { methods: [method], path, caller: 'controller', limit: null, right: null, body } as const;
}

/** A controller reads what this one has. */
const peerReads = (path: string) =>
  ({ methods: ['GET'], path, caller: 'controller', limit: null, right: null }) as const;
const userReads = (path: string) => ({ methods: ['GET'], path, caller: 'user', limit: 'read' }) as const;
const scrapes = (path: string) =>
  ({ methods: ['GET'], path, caller: 'scraper', limit: 'read', ...metrics, right: () => SCRAPE }) as const;

/** Heartbeats, which a process of their own answers too. */
export const LEASE_ROWS: readonly RouteRow<LeaseOptions>[] = [
  row({
    ...ofAgent(AGENT_CALLS.lease, 'the lease request', parseLeaseRequest),
    ...leases,
    limit: 'lease',
    right: ofNode('update', 'lease'),
    needs: 'node',
    async answer(service, { body }) {
      const answer = await service.answer(body);
      return answer === null
        ? unavailable('no controller leads now; nothing is granted')
        : { code: 200, body: answer };
    },
  }),
  row({
    ...ofPeer(PEER_CALLS.leases, 'the batch', (value) => checked(LEASE_BATCH, value)),
    ...leases,
    async answer(service, { body: { requests } }) {
      return {
        code: 200,
        body: { answers: await Promise.all(requests.map((one) => service.answerAsLeader(one))) },
      };
    },
  }),
];

const PEER_ROWS: readonly RouteRow<AnswerOptions>[] = [
  row({
    ...peerReads(PEER_CALLS.allReports.path),
    ...own,
    answer({ reports: all }) {
      return { code: 200, body: { reports: [...all.nodes()].flatMap((node) => all.aged(node) ?? []) } };
    },
  }),
  row({
    ...ofPeer(PEER_CALLS.reports, 'the batch', (value) => decode(REPORT_BATCH, value)),
    ...own,
    answer({ reports: all, onReport }, { body }) {
      for (const one of body.reports) if (all.receive(one)) onReport(one.report, 'controller');
      return { code: 200, body: {} };
    },
  }),
  row({
    ...ofPeer(PEER_CALLS.probes, 'the probes', (value) => decode(PASSED_PROBES, value)),
    ...probes,
    async answer(service, { body }) {
      if (body.kind === 'question') {
        const { kind: _, node, ...question } = body;
        return { code: 200, body: { results: await service.answerHere(node, question) } };
      }
      service.answeredHere(body.prober, body.answer);
      return { code: 200, body: { results: [] } };
    },
  }),
  row({
    ...ofPeer(PEER_CALLS.questions, 'what is passed on', (value) => decode(PASSED_QUESTION, value)),
    ...questions,
    async answer(service, { body }) {
      if (body.kind === 'question') {
        const { about, query } = body;
        return { code: 200, body: (await service.askHere(body.node, { about, query })) ?? {} };
      }
      service.answeredHere(body.node, body.answer);
      return { code: 200, body: {} };
    },
  }),
  row({
    ...peerReads(PEER_CALLS.state.path),
    ...states,
    answer: async (service) => ({ code: 200, body: await service.own() }),
  }),
];

const AGENT_ROWS: readonly RouteRow<AnswerOptions>[] = [
  row({
    methods: ['GET', 'POST'],
    path: NODE_VIEWS_PATH,
    isWatch: true,
    caller: 'agent',
    isRefusable: true,
    ...own,
    limit: 'watch',
    right: ({ query }) => named('watch', selectedName(query)),
    answer: watchView,
  }),
  row({
    ...ofAgent(AGENT_CALLS.report, 'the report', parseReport),
    ...own,
    isRefusable: true,
    limit: 'report',
    right: ofNode('update', 'status'),
    needs: 'node',
    answer({ reports: all, hub, date, onReport }, { body }) {
      // By the controller's clock: by a node's wrong one, an agent that stopped would look alive.
      const report = { ...body, time: new Date(date()).toISOString() };
      all.receive({ report, age: 0 });
      all.forgetDeleted(hub.nodes());
      onReport(report, 'agent');
      return DONE;
    },
  }),
  row({
    ...ofAgent(AGENT_CALLS.probes, 'the question', (value) => decode(INWARD_QUESTION, value)),
    ...probes,
    limit: 'probes',
    right: ofNode('update', 'probes'),
    needs: 'node',
    answer: async (service, { node, body }) => ({ code: 200, body: await service.answer(node, body) }),
  }),
  row({
    ...ofAgent(AGENT_CALLS.probeAnswer, 'the answer', (value) => decode(PEER_ANSWER, value)),
    ...probes,
    limit: 'probeanswer',
    right: ofNode('update', 'probeanswer'),
    answer(service, { node, body }) {
      service.answered(node, body);
      return DONE;
    },
  }),
  row({
    ...ofAgent(AGENT_CALLS.answer, 'the answer', (value) => decode(NODE_ANSWER, value)),
    ...questions,
    limit: 'answer',
    right: ofNode('update', 'answer'),
    answer(service, { node, body }) {
      service.answered(node, body);
      return DONE;
    },
  }),
];

const USER_ROWS: readonly RouteRow<AnswerOptions>[] = [
  row({
    ...userReads(NODE_VIEWS_PATH),
    ...own,
    right: ({ query }) => named('list', selectedName(query)),
    answer: listViews,
  }),
  row({
    ...userReads(`${NODE_VIEWS_PATH}/{node}`),
    needs: 'node',
    ...own,
    right: ({ node }) => named('get', node),
    answer: readView,
  }),
  ...NODE_DATA.map((about) =>
    row({
      ...userReads(`${NODE_VIEWS_PATH}/{node}/${about}`),
      limit: 'scrape',
      ...questions,
      right: ofNode('get', about),
      needs: 'node',
      async answer(service, { node, query }) {
        const question = { about, query: query.toString() };
        if (!NODE_QUESTION.accepts(question)) return refused('BadRequest', 'the query is too long');
        const answered = await service.ask(node, question);
        if ('text' in answered) return { code: 200, text: answered.text, type: 'application/json' };
        return refused(answered.isRefused ? 'BadRequest' : 'ServiceUnavailable', answered.problem);
      },
    }),
  ),
  row({
    ...userReads(CONTROLLERS_PATH),
    ...states,
    right: () => ({ verb: 'list', resource: 'controllers' }),
    async answer(service) {
      const [state, others] = await Promise.all([service.own(), service.others()]);
      const items = [{ metadata: { name: state.name }, state }, ...others];
      return { code: 200, body: { kind: 'ControllerList', apiVersion: GROUP_VERSION, metadata: {}, items } };
    },
  }),
  ...DISCOVERY.entries().map(([path, body]) =>
    row({ ...userReads(path), limit: null, right: null, ...own, answer: () => ({ code: 200, body }) }),
  ),
];

const SCRAPE_ROWS: readonly RouteRow<AnswerOptions>[] = [
  row({
    ...scrapes(METRICS_PATH),
    isAlwaysOpen: true,
    answer: async ({ text, contentType: type }) => ({ code: 200, text: await text(), type }),
  }),
  // From a replica that has not all reports yet, a page would say that nodes are silent.
  row({
    ...scrapes(ALL_NODES_PATH),
    needs: 'state',
    async answer({ allNodes, contentType: type }) {
      const page = await allNodes();
      return 'problem' in page ? unavailable(page.problem) : { code: 200, text: page.text, type };
    },
  }),
  row({
    ...scrapes(`${ALL_NODES_PATH}/{node}`),
    limit: 'scrape',
    needs: 'node',
    async answer({ contentType: type }, { node }, { nodeQuestions }) {
      const answered = await nodeQuestions?.ask(node, { about: 'metrics', query: '' });
      if (answered === undefined) return refused('NotFound', NO_QUESTIONS);
      return 'problem' in answered ? unavailable(answered.problem) : { code: 200, text: answered.text, type };
    },
  }),
];

/** Every request that a controller answers on the agents' port. */
export const ROWS: readonly RouteRow<AnswerOptions>[] = [
  ...AGENT_ROWS,
  ...LEASE_ROWS,
  ...PEER_ROWS,
  ...USER_ROWS,
  ...SCRAPE_ROWS,
  ...CONSOLE_ROWS,
];

function named(verb: 'watch' | 'list' | 'get', name: string | null): Right {
  return { verb, resource: 'nodeviews', ...(name === null ? {} : { name }) };
}

/** Heartbeats of egress gateways. */
export interface LeaseService {
  /** The leader's answer, whichever replica leads; null: none does with certainty. */
  answer(request: LeaseRequest): Promise<LeaseAnswer | null>;
  /** Null: this replica does not lead. */
  answerAsLeader(request: LeaseRequest): LeaseAnswer | null | Promise<LeaseAnswer | null>;
}

/** Connections to nodes, for their guarded apply. */
export interface ProbeService {
  answer(node: string, question: InwardQuestion): Promise<InwardAnswer>;
  /** Makes those that this replica itself can. */
  answerHere(node: string, question: InwardQuestion): Promise<readonly InwardResult[]>;
  answered(prober: string, answer: PeerAnswer): void;
  answeredHere(prober: string, answer: PeerAnswer): void;
}

/** The state of the controllers. */
export interface ControllerStates {
  own(): Promise<ControllerState>;
  /** The items of the others: one of each, whether it answers or not. */
  others(): Promise<readonly ControllerItem[]>;
}

/** The metrics at `/metrics` and below, for callers that the API server allows to read them. */
export interface MetricsSource {
  /** Tokens of scrapers are for the API server. */
  readonly authenticate: Authenticate;
  readonly contentType: string;
  /** The controller's own. */
  readonly text: () => Promise<string>;
  /** Metrics of all nodes; or the reason why there is no answer now. */
  readonly allNodes: () => Promise<{ readonly text: string } | { readonly problem: string }>;
}
