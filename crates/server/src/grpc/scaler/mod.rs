//! KEDA's external scaler: how much work there is, for whoever decides how many workers run.
//!
//! Every call carries the metadata of the trigger and in it a token that may read queues: an administrator's, or one with
//! the scope `codeq:observe`. What is measured and when workers are wanted is in `trigger.rs`.

mod trigger;

use super::StreamContext;
use super::handshake::{denied, shutting_down};
use super::texts::plain;
use crate::auth::{Access, Admin, Caller, Denied};
use crate::shares::Place;
use codeq_api::grpc::scaler::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use codeq_api::grpc::scaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
    ScaledObjectRef,
};
use futures_util::{Stream, stream};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::{Request, Response, Status};
use trigger::{QueueLoad, Trigger};

pub const SERVICE: &str = "/externalscaler.ExternalScaler/";
/// How often an open `StreamIsActive` looks at its queues.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub struct Scaler {
    office: Arc<StreamContext>,
}

/// The service; a request of it is as small as a Hello.
pub fn service(office: Arc<StreamContext>) -> ExternalScalerServer<Scaler> {
    ExternalScalerServer::new(Scaler { office }).max_decoding_message_size(super::HELLO_BYTES)
}

impl Scaler {
    async fn enter(&self, reference: &ScaledObjectRef) -> Result<(Trigger, Arc<Caller>), Status> {
        let trigger = Trigger::read(&reference.scaler_metadata).map_err(Status::invalid_argument)?;
        let authorization = format!("Bearer {}", trigger.token);
        match self.office.gate.admin(Some(authorization.as_bytes()), Access::Read).await {
            Ok(Admin(caller)) => Ok((trigger, caller)),
            Err(refused @ Denied::AdminOnly) => Err(Status::permission_denied(refused.to_string())),
            Err(refused) => Err(denied(refused)),
        }
    }
}

async fn look(office: &StreamContext, trigger: &Trigger, caller: &Caller) -> Result<Vec<QueueLoad>, Status> {
    let mut queues = Vec::with_capacity(trigger.commands.len());
    for command in &trigger.commands {
        let queue = office.broker.queue(&caller.tenant, command).await;
        queues.push(QueueLoad::from(&queue.map_err(|error| Status::unavailable(plain(&error)))?));
    }
    Ok(queues)
}

/// An open `StreamIsActive`.
struct Watch {
    office: Arc<StreamContext>,
    trigger: Trigger,
    caller: Arc<Caller>,
    ticks: Interval,
    told: Option<bool>,
    _place: Place,
}

impl Watch {
    /// The next change; an error is the last item.
    async fn next(mut self) -> Option<(Result<IsActiveResponse, Status>, Option<Watch>)> {
        loop {
            tokio::select! {
                biased;
                () = self.office.draining.cancelled() => return Some((Err(shutting_down()), None)),
                _ = self.ticks.tick() => {}
            }
            let result = match look(&self.office, &self.trigger, &self.caller).await {
                Ok(queues) => self.trigger.is_active(&queues, self.office.broker.now()),
                Err(status) => return Some((Err(status), None)),
            };
            if self.told.replace(result) != Some(result) {
                return Some((Ok(IsActiveResponse { result }), Some(self)));
            }
        }
    }
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let (trigger, caller) = self.enter(request.get_ref()).await?;
        let queues = look(&self.office, &trigger, &caller).await?;
        let result = trigger.is_active(&queues, self.office.broker.now());
        Ok(Response::new(IsActiveResponse { result }))
    }

    type StreamIsActiveStream = Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let (trigger, caller) = self.enter(request.get_ref()).await?;
        let place = self.office.shares.take(&caller.tenant).ok_or_else(|| {
            let most = self.office.shares.most();
            Status::resource_exhausted(format!("too many streams of the tenant (max {most})"))
        })?;
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watch = Watch { office: self.office.clone(), trigger, caller, ticks, told: None, _place: place };
        let changes = stream::unfold(Some(watch), |watch| async move { watch?.next().await });
        Ok(Response::new(Box::pin(changes)))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let (trigger, _) = self.enter(request.get_ref()).await?;
        let spec = MetricSpec {
            metric_name: trigger.metric_name(),
            target_size: trigger::whole(trigger.target).max(1),
            target_size_float: trigger.target,
        };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let reference = request.get_ref().scaled_object_ref.as_ref();
        let (trigger, caller) = self.enter(reference.unwrap_or(&ScaledObjectRef::default())).await?;
        let queues = look(&self.office, &trigger, &caller).await?;
        let value = trigger.value(&queues, self.office.broker.now());
        let metric = MetricValue {
            metric_name: trigger.metric_name(),
            metric_value: trigger::whole(value),
            metric_value_float: value,
        };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![metric] }))
    }
}
