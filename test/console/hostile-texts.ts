/** Names, reasons and lines of logs as somebody would write them who wants a script to run. */
const FORMS: readonly ((run: string) => string)[] = [
  (run) => `<script>${run}</script>`,
  (run) => `<img src=x onerror="${run}">`,
  (run) => `<svg onload=${run}>`,
  (run) => `<svg><animate onbegin=${run} attributeName=x dur=1s>`,
  (run) => `<svg><script>${run}</script></svg>`,
  (run) => `<iframe srcdoc="<script>parent.${run}</script>"></iframe>`,
  (run) => `<iframe src="javascript:parent.${run}"></iframe>`,
  (run) => `<details open ontoggle=${run}>`,
  (run) => `<style>@import 'data:text/css,*{color:red}';</style><b onmouseover=${run}>`,
  (run) => `<a href="javascript:${run}">x</a>`,
  (run) => `javascript:${run}`,
  (run) => `data:text/html,<script>${run}</script>`,
  (run) => `" onfocus="${run}" autofocus x="`,
  (run) => `' onmouseover='${run}' '`,
  (run) => `"><script>${run}</script>`,
  (run) => `--><script>${run}</script><!--`,
  (run) => `</title></textarea><script>${run}</script>`,
  (run) => `\${${run}}`,
  (run) => `{{constructor.constructor('${run}')()}}`,
  (run) => `<form action="javascript:${run}"><button id=a>`,
  (run) => `<base href="http://10.9.9.9/"><link rel=stylesheet href=//10.9.9.9/${run}>`,
  (run) => `<meta http-equiv=refresh content="0;url=javascript:${run}">`,
  (run) => `<x style="background:url(//10.9.9.9/${run})">`,
  (run) => `<lit-x?${run}><!--?lit$123$--><?lit$123$>`,
  (run) => `__proto__ ${run}`,
  (run) => `\u202e\u0000\u001b[31m\r\n\t${run}\ufeff\ud800`,
  (run) => `${'\u0301'.repeat(60)}<b>${run}`,
  (run) => `${'W'.repeat(500)}<script>${run}</script>`,
  (run) => `#/lint?x=${run}&view=grid`,
  (run) => `'; ${run}; kubectl delete nodes --all; echo '`,
];

/** Each would set `pwned`, and is found in no other. */
export function hostileText(index: number): string {
  const form = FORMS[index % FORMS.length];
  return form === undefined ? '' : form(`globalThis.pwned=${index}`);
}

/** Fields that are texts of others. */
const TEXTS = new Set([
  ...[
    'name',
    'message',
    'reason',
    'remark',
    'object',
    'rule',
    'policy',
    'peer',
    'node',
    'tier',
    'by',
    'version',
  ],
  ...[
    'text',
    'flows',
    'peers',
    'before',
    'after',
    'path',
    'does',
    'line',
    'progress',
    'revision',
    'nodes',
    'waiting',
  ],
  ...['protocol', 'guardrail', 'exemption'],
]);

/** A copy of a document in which all texts of others are hostile; times and numbers stay. */
export function hostileCopy<T>(document: T): T {
  let next = 0;
  const copy = (value: unknown, key: string): unknown => {
    if (typeof value === 'string') return TEXTS.has(key) ? hostileText(next++) : value;
    if (Array.isArray(value)) return value.map((item) => copy(item, key));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copy(item, name)]));
  };
  return copy(document, '') as T;
}
