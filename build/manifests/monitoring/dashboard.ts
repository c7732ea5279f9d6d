/** A dashboard of Grafana, in as few words as it takes. */
export interface Dashboard {
  /** File name, and uid in Grafana. */
  readonly name: string;
  readonly title: string;
  /** A label whose values are offered for `$NAME` in queries; absent: none. */
  readonly variable?: { readonly name: string; readonly query: string };
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

export interface Panel {
  readonly title: string;
  /** `stat`: the value now. `table`: the series now. */
  readonly kind: 'timeseries' | 'stat' | 'table';
  /** A unit of Grafana: short, s, bytes, pps, Bps, dateTimeAsIso … */
  readonly unit: string;
  readonly queries: readonly Query[];
}

export interface Query {
  /** PromQL; every controller has every node, so it takes the maximum over them. */
  readonly expr: string;
  /** The name of each series: `{{node}}`. */
  readonly legend: string;
}

/** The dashboard of Grafana 10, by its documentation ("Dashboard JSON model"). */
const SCHEMA_VERSION = 39;
/** The grid of Grafana has 24 columns. */
const COLUMNS = 24;
const WIDTH: Readonly<Record<Panel['kind'], number>> = { timeseries: 12, stat: 6, table: 12 };
const HEIGHT: Readonly<Record<Panel['kind'], number>> = { timeseries: 8, stat: 4, table: 8 };
const DATASOURCE = { type: 'prometheus', uid: '$datasource' };

/** The dashboard in Grafana's JSON model. */
export function toGrafana({ name, title, variable, rows }: Dashboard): object {
  return {
    uid: `nodewall-${name}`,
    title,
    tags: ['nodewall'],
    timezone: 'browser',
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus' },
        ...(variable === undefined
          ? []
          : [{ ...variable, type: 'query', datasource: DATASOURCE, refresh: 2, sort: 1 }]),
      ],
    },
    panels: placed(rows),
  };
}

/** Rows below each other; the panels of a row fill lines from the left. */
function placed(rows: Dashboard['rows']): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: row.title,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
    });
    y++;
    let [x, height] = [0, 0];
    for (const panel of row.panels) {
      const [w, h] = [WIDTH[panel.kind], HEIGHT[panel.kind]];
      if (x + w > COLUMNS) [x, y, height] = [0, y + height, 0];
      panels.push({ id: panels.length + 1, ...toPanel(panel), gridPos: { x, y, w, h } });
      x += w;
      height = Math.max(height, h);
    }
    y += height;
  }
  return panels;
}

function toPanel({ title, kind, unit, queries }: Panel): object {
  return {
    type: kind,
    title,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: queries.map(({ expr, legend }, i) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + i),
      datasource: DATASOURCE,
      expr,
      legendFormat: legend,
      ...(kind === 'table' ? { instant: true, format: 'table' } : {}),
    })),
  };
}
