// The microVM hosts: what each may run and runs, how it is reached, and when it last reported.

import { useEffect, useRef } from "preact/hooks";
import { State, Use } from "./columns";
import { Copy } from "./copy";
import type { Choice } from "./fragment";
import { t } from "./language";
import { useAnswer } from "./news";
import { Raw } from "./raw";
import { Order, sorted, type Field } from "./table";
import { age, amount, plural } from "./text";

interface Amounts {
  cpu: number;
  memory: number;
  pods: number;
}

interface MicroVM {
  namespace: string;
  pod: string;
  profile?: string;
  phase?: string;
  cpu: number;
  memory: number;
  problem?: string;
}

interface Host {
  name: string;
  namespace: string;
  status: string;
  message?: string;
  engine?: string;
  arch?: string;
  zone?: string;
  kubelet?: string;
  kernel?: string;
  created: number;
  heard: number;
  capacity: Amounts;
  used: Amounts;
  podCIDR: string;
  address?: string;
  overlayPort?: number;
  overlayKey: boolean;
  microVMs: MicroVM[] | null;
}

interface Answer {
  at: number; // when the hosts were read
  served: boolean;
  hosts: Host[] | null;
  noMicroVMs?: string;
  left?: number;
}

interface Props {
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
}

const again = 5_000; // milliseconds between two requests: hosts report as often
const mostCards = 200;

export function Hosts({ past, ...props }: Props) {
  return (
    <main class="screen hosts">
      <h2>{t("MicroVM hosts")}</h2>
      {past ? <p role="status">{t("Hosts are shown live only.")}</p> : <Live {...props} />}
    </main>
  );
}

function Live(props: Omit<Props, "past">) {
  const a = useAnswer<Answer>("/api/hosts", again);
  if (a === null) return <p role="status">{t("Reading the hosts…")}</p>;
  if (typeof a === "string") return <p class="bad" role="alert">{a}</p>;
  const hosts = a.hosts ?? [];
  return hosts.length === 0 ? <None served={a.served} /> : <Cards a={a} hosts={hosts} {...props} />;
}

const join = ["nodeless host token NAME > join.kubeconfig", "nodeless host --join join.kubeconfig"];

/** None says how a machine becomes a host. */
function None({ served }: { served: boolean }) {
  return (
    <div role="status">
      <p>{t("No host has joined this cluster. A host is a Linux machine with QEMU that runs pods of FargateProfiles in microVMs.")}</p>
      {!served && <p>{t("The cluster has no kind MicroVMHost yet:")} <Command text="nodeless crds | kubectl apply --server-side -f -" /></p>}
      <p>{t("An administrator of the cluster makes a join file:")} <Command text={join[0]!} /></p>
      <p>{t("The machine joins with it, once:")} <Command text={join[1]!} /></p>
    </div>
  );
}

function Command({ text }: { text: string }) {
  return <span class="command"><code>{text}</code> <Copy text={text} /></span>;
}

const part = (used: number, of: number): number => (of > 0 ? used / of : 0);
const orders: Field<Host>[] = [
  { key: "name", title: "Name", width: 0, show: () => null, by: (h) => h.name },
  { key: "status", title: "Status", width: 0, show: () => null, by: (h) => h.status },
  { key: "cpu", title: "CPU used", width: 0, show: () => null, by: (h) => part(h.used.cpu, h.capacity.cpu) },
  { key: "memory", title: "Memory used", width: 0, show: () => null, by: (h) => part(h.used.memory, h.capacity.memory) },
  { key: "pods", title: "Pods", width: 0, show: () => null, by: (h) => h.used.pods },
  { key: "age", title: "Last heard", width: 0, show: () => null, by: (h) => -h.heard },
];

function Cards({ a, hosts, choice, choose }: { a: Answer; hosts: Host[] } & Omit<Props, "past">) {
  const list = sorted(hosts, orders, choice.sort), ready = hosts.filter((h) => h.status === "Ready").length;
  const some = list.filter((h, i) => i < mostCards || h.name === choice.host);
  return (
    <>
      <p><span role="status">{plural(hosts.length, "host")}, {t(`${ready} ready`)}</span> <Order columns={orders} sort={choice.sort} choose={choose} /></p>
      {a.noMicroVMs && <p class="bad">{t("What runs on them is not shown")}: {t(a.noMicroVMs)}</p>}
      {(a.left ?? 0) > 0 && <p class="faint">{t(`${plural(a.left!, "microVM")} of namespaces whose pods you may not list ${a.left === 1 ? "is" : "are"} counted, and not named.`)}</p>}
      <div class="cards">{some.map((h) => <Card key={h.name} h={h} known={!a.noMicroVMs} now={a.at} chosen={choice.host === h.name} choose={choose} />)}</div>
      {list.length > some.length && <p class="faint">{t(`The first ${some.length} of ${list.length} in this order.`)}</p>}
      <p class="faint">{t("A host does not report which images and templates it has.")}</p>
    </>
  );
}

function Card({ h, known, now, chosen, choose }: { h: Host; known: boolean; now: number; chosen: boolean; choose: Props["choose"] }) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (chosen) card.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <article class={chosen ? "shape chosen" : "shape"} ref={card} aria-label={h.name}>
      <header>
        <h3><a href={`#view=hosts;host=${encodeURIComponent(h.name)}`} onClick={(e) => (e.preventDefault(), choose({ host: chosen ? "" : h.name }))}>{h.name}</a></h3>
        <State status={h.status} />
      </header>
      {h.message && <p class={h.status === "NotReady" ? "bad" : "faint"}>{h.status === "NotReady" && "✗ "}{h.message}</p>}
      <p class="faint">{[h.arch, h.engine, h.zone, h.kubelet && `kubelet ${h.kubelet}`, h.kernel && `kernel ${h.kernel}`].filter(Boolean).join(" · ")}</p>
      <dl>
        <Fact name={t(known ? "Used" : "Capacity")}>{known ? (
          <>
            <div><Use label="cpu" resource="cpu" used={h.used.cpu} of={h.capacity.cpu} part={part(h.used.cpu, h.capacity.cpu)} /></div>
            <div><Use label="memory" resource="memory" used={h.used.memory} of={h.capacity.memory} part={part(h.used.memory, h.capacity.memory)} /></div>
            <div><Use label="pods" resource="pods" used={h.used.pods} of={h.capacity.pods} part={part(h.used.pods, h.capacity.pods)} /></div>
          </>
        ) : `cpu ${amount("cpu", h.capacity.cpu)}, memory ${amount("memory", h.capacity.memory)}, ${plural(h.capacity.pods, "pod")}`}</Fact>
        <Fact name={t("Network")}>
          <div>{t("pods")} {h.podCIDR}{h.address && `, ${t("host")} ${h.address}`}</div>
          <div>{t(network(h))}</div>
        </Fact>
        <Fact name={t("Heard")}>{t(h.heard ? `${age(now, h.heard)} ago` : "never")}<span class="faint">, {t(`joined ${age(now, h.created)} ago`)}</span></Fact>
      </dl>
      {known && (h.microVMs?.length ?? 0) > 0 && <MicroVMs h={h} choose={choose} />}
      <Raw kind="MicroVMHost" namespace={h.namespace} name={h.name} now={now} />
    </article>
  );
}

/** network describes how other hosts reach the microVMs of a host. */
function network(h: Host): string {
  if (!h.overlayPort) return "user mode: its pods can open outbound connections, but other hosts cannot reach them";
  return h.overlayKey ? `encrypted by WireGuard, UDP port ${h.overlayPort}` : `UDP port ${h.overlayPort}; it has announced no WireGuard key`;
}

function MicroVMs({ h, choose }: { h: Host; choose: Props["choose"] }) {
  return (
    <details>
      <summary>{plural(h.used.pods, "pod")}</summary>
      <ul class="budgets">
        {h.microVMs!.map((v) => (
          <li key={`${v.namespace}/${v.pod}`}>
            <button type="button" class="link" onClick={() => choose({ node: "", pod: `${v.namespace}/${v.pod}` })}>{v.namespace}/{v.pod}</button>
            <small class="faint"> {[v.phase, `cpu ${amount("cpu", v.cpu)}`, amount("memory", v.memory), v.profile && `profile ${v.profile}`].filter(Boolean).join(", ")}</small>
            {v.problem && <div class="bad">✗ {t(v.problem)}</div>}
          </li>
        ))}
      </ul>
      {h.used.pods > h.microVMs!.length && <p class="faint">{t(`and ${h.used.pods - h.microVMs!.length} more`)}</p>}
    </details>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}
