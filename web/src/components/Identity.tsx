/** Who a GPU is. */

import type { GpuDetail } from "../api/types";
import { Trail } from "./Trail";
import { linkTo } from "../state/location";
import { now } from "../state/clock";
import { FLEET } from "../state/route";
import { NO_FILTERS } from "../state/view";
import { age, moment } from "../time/format";

export function Identity({ gpu, title }: { gpu: GpuDetail; title: string }) {
  const driver = gpu.labels["driver_version"] ?? gpu.labels["DCGM_FI_DRIVER_VERSION"];
  return (
    <section class="panel identity" aria-labelledby="identity">
      <Trail
        steps={[
          {
            title: gpu.cluster,
            href: linkTo(FLEET, { filters: { ...NO_FILTERS, cluster: [gpu.cluster] } }),
          },
          {
            title: gpu.hostname,
            href: linkTo({ page: "host", cluster: gpu.cluster, host: gpu.hostname }),
          },
        ]}
      />
      <h1 id="identity">
        {title}
        <span class={`badge state-${gpu.state}`}>{gpu.state}</span>
      </h1>
      <dl class="facts">
        <Fact name="Model" value={gpu.model} />
        <Fact name="UUID" value={gpu.uuid} code />
        <Fact name="Device" value={gpu.device} />
        {gpu.mig && <Fact name="MIG" value={gpu.mig} />}
        <Fact name="Namespace" value={gpu.namespace} />
        <Fact name="Pod" value={gpu.pod} />
        {driver && <Fact name="Driver" value={driver} />}
        <Fact name="First seen" value={moment(Date.parse(gpu.first_seen))} />
        <Fact name="Last seen" value={`${age(now.value - Date.parse(gpu.last_seen))} ago`} />
      </dl>
    </section>
  );
}

export function Fact({
  name,
  value,
  code = false,
}: {
  name: string;
  value: string;
  code?: boolean;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={code ? "code" : undefined}>{value || "–"}</dd>
    </div>
  );
}
